// What an executor does for its server, and what it answers.
//
// RunJob() is the only way from a job to its reply, in a server and in the simulation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "server/executor/slots/slot_job.h"
#include "server/executor/slots/slot_load.h"
#include "server/executor/state/stored_rows.h"
#include "server/model/lsh/hash_tables.h"

namespace dslide {

class Executor;

// Where an executor's state comes from when it starts. The executors' threads call it, each once.
class StateSource {
 public:
  virtual ~StateSource() = default;
  // Fills an executor. The error says what is wrong with the checkpoint; the executor is then of no
  // use.
  virtual Status Load(Executor* executor) = 0;
};

// A request of a worker, another server or the scheduler. The reply is a Body: the executor's part
// of the answer.
struct RequestJob {
  Incarnation sender;
  std::shared_ptr<const Body> body;
  uint32_t plan_version = 0;  // of a worker's request; 0: it does not depend on the plan

  // Whether the result would be discarded: the worker has begun the batch again under a newer plan.
  bool StaleUnder(uint32_t plan) const { return plan_version != 0 && plan_version < plan; }
};
// A job about slots that come and go. The reply is Attached, without slots but for kAttach.
using SharedSlotJob = std::shared_ptr<const SlotJob>;
// What its slots cost since the last MeasureJob. The reply is Measured.
struct MeasureJob {
  bool tables;  // and how its hash tables are filled
};
// The mark of a snapshot, which goes to `sink` while other jobs go on. The reply is Marked.
// `committed`: in synchronous training, the steps that the executor has to stand at.
struct MarkJob {
  SnapshotSink* sink;
  std::optional<uint64_t> committed;
};
// The snapshot in progress, or the last one, is not stored: its rows count as changed again. The
// reply is Done.
struct DropSnapshotJob {
  bool store_lost;  // the next snapshot writes all rows
};
// The first job of an executor. The reply is Loaded.
struct LoadJob {
  std::shared_ptr<StateSource> source;  // null: initial weights by the seed
};
using ExecutorJob =
    std::variant<RequestJob, SharedSlotJob, MeasureJob, MarkJob, DropSnapshotJob, LoadJob>;

struct Done {};
struct Attached {
  std::vector<SlotId> slots;
};
struct TableFigures {
  BucketOccupancy buckets;
  uint32_t hash_round = 0;
  uint32_t lag_batches = 0;  // see Heartbeat::rehash_lag_batches
};
struct Measured {
  ExecutorLoad load;
  uint64_t memory_bytes = 0;  // rows, optimiser state, hash tables and batches in flight
  uint32_t batches_in_flight = 0;
  std::optional<TableFigures> tables;  // if they were asked for and there are some
  RowsOnDisk on_disk = {};             // of both layers
};
struct Marked {
  uint32_t stall_us = 0;  // how long the executor stood still
};
struct Loaded {
  uint64_t rows = 0;          // of both layers
  uint64_t memory_bytes = 0;  // rows, optimiser state and hash tables
};
// An Error says why the job was not done; with kTryLater nothing is wrong, and a later job may do.
using JobReply = std::variant<Body, Done, Attached, Measured, Marked, Loaded, Error>;

// Does a job in the executor's thread. `plan_version`: of the newest plan at this moment. A request
// of an older plan is answered with kStalePlan, without work: its result would be discarded.
JobReply RunJob(const ExecutorJob& job, uint32_t plan_version, Executor* executor);

// Parts of a reply to a request; an Error becomes an ErrorReply.
std::vector<Body> BodiesOf(std::vector<JobReply> replies);

}  // namespace dslide
