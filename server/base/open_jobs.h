// The jobs that a server's executors have before them, and the parts of each result so far.
//
// A job goes to all executors. Its id names it in their outcomes. Ids ascend and never
// repeat, so the outcome of a job that was forgotten is recognised and dropped.
//
// Invariants: an open job lacks the part of at least one executor; ids are below the next one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "common/run/lease_proofs.h"
#include "common/wire/messages.h"
#include "server/executor/executor_pool.h"
#include "server/executor/job.h"
#include "server/executor/request_round.h"

namespace dslide {

// The batch whose last request at this server this is, by the plan in force.
struct BatchEnd {
  LeaseKind kind;
  BatchId batch;
  uint32_t plan_version;
  bool has_neurons;  // this server, by that plan: without them it sees nothing of the loss
};

// Who asked, and how the answer is to be encoded.
struct Asker {
  PeerId peer;
  Incarnation incarnation;
  uint64_t sequence = 0;
  WirePrecision precision = WirePrecision::kBf16;
  int64_t arrived_us = 0;
  uint32_t plan_version = 0;          // of a worker's request; 0: the plan may change meanwhile
  std::optional<BatchEnd> ends = {};  // none: the request is not the last one of its batch here
  BatchProof proof = {};              // of the batch that the request ends
};

// What a job is for: this decides who takes its result.
struct PeerRequest {  // a worker or another server waits for the reply
  Asker asker;
  RequestRound round;
};
struct SchedulerOrder {};  // nobody waits
struct SchedulerRequest {  // the scheduler waits
  std::shared_ptr<const Body> request;
};
struct OwnPull {  // of a slot that moves between this server's executors
  SlotPull pull;
};
struct SlotMoving {
  SharedSlotJob job;
};
struct LoadMeasuring {
  bool tables;
};
struct SlotLoading {};
struct SnapshotMarking {};  // of the save in progress
struct SnapshotDropping {
  bool gives_up;  // the save in progress waits for it; otherwise nobody does
};
using JobPurpose = std::variant<PeerRequest, SchedulerOrder, SchedulerRequest, OwnPull, SlotMoving,
                                LoadMeasuring, SlotLoading, SnapshotMarking, SnapshotDropping>;

class OpenJobs {
 public:
  struct Finished {
    JobPurpose purpose;
    std::vector<JobReply> parts;  // [executors]
  };

  // The number of executors that later jobs go to. REQUIRES that no job is open.
  void SetExecutors(uint32_t executors);
  void Forget() { open_.clear(); }

  // The job's id.
  uint64_t Open(JobPurpose purpose);

  // Adds an executor's part. The purpose and all parts of the job, if this was the last one. The
  // outcome of a forgotten job is dropped.
  std::optional<Finished> Add(ExecutorPool::Outcome outcome);

  size_t size() const { return open_.size(); }
  void CheckInvariants() const;

 private:
  struct Entry {
    JobPurpose purpose;
    std::vector<std::optional<JobReply>> parts;  // [executors]
    size_t missing;
  };

  uint32_t executors_ = 1;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Entry> open_;
};

}  // namespace dslide
