// The checkpoints of a server's part: one at a time, and the last one that the server writes by
// itself when the scheduler is gone.
//
// A save:
//   1. The store begins, and every executor marks a snapshot (ServerSave).
//   2. The executors put rows to the store between their other jobs. The store's outcome ends the
//      save (Take).
//   If an executor cannot mark, all executors drop the snapshot, then the store gives the save up:
//   its outcome is the first executor's error.
//   If the store fails, the rows of this save are lost; unless there was no space all of its rows
//   are, and the executors write all rows next time. They learn it before the scheduler can ask for
//   the next checkpoint.
//
// Invariants: a server that saves for itself is orphaned; only a save in progress is given up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"

namespace dslide {

class Saver {
 public:
  // `checkpoints`: the directory of the run's checkpoints; empty: not known yet.
  explicit Saver(std::string checkpoints) : checkpoints_(std::move(checkpoints)) {}

  // The scheduler asks for a checkpoint. `committed`: the steps that count, in synchronous
  // training. REQUIRES a seat with slots that are all loaded.
  void OnRequest(const CheckpointRequest& request, const ServerSeat& seat,
                 std::optional<uint64_t> committed, ServerOutbox* out);
  // The executors' answers to the MarkJob, and to the DropSnapshotJob of a save that is given up.
  void OnMarked(const std::vector<JobReply>& parts, ServerOutbox* out);
  void OnDropped(ServerOutbox* out);
  // The outcome of a ServerSave; `lost`: after an error the store has no rows any more. False: of
  // another one.
  bool Take(uint64_t job_id, CheckpointDone done, bool lost, const ServerSeat& seat,
            ServerOutbox* out);
  // The slots have changed: the last checkpoint is of other ones.
  void ForgetLast() { last_ = CheckpointDone(); }

  // The scheduler is gone: the server saves its part, where a scheduler that comes back finds it,
  // and ends. `why` is for the log. While a checkpoint is being written it has to be called again.
  // REQUIRES as OnRequest(), and knows_directory().
  void SaveAndLeave(const std::string& why, const ServerSeat& seat,
                    std::optional<uint64_t> committed, ServerOutbox* out);
  // The scheduler was heard. A server that has begun to save for itself ends all the same.
  void HearScheduler() { orphaned_ = saves_for_itself_; }

  bool saving() const { return saving_.has_value(); }
  // The scheduler is gone, and was not heard since.
  bool orphaned() const { return orphaned_; }
  // From the mark on no request is taken: a batch that counts would be missing from what was saved.
  bool saves_for_itself() const { return saves_for_itself_; }
  bool knows_directory() const { return !checkpoints_.empty(); }
  const std::string& checkpoints() const { return checkpoints_; }

  void CheckInvariants() const;

 private:
  struct Saving {
    CheckpointRequest request;
    uint64_t job_id;
    uint32_t stall_us = 0;             // the longest that an executor stood still for its mark
    std::optional<Error> mark_failed;  // why it is given up
  };
  void Start(CheckpointRequest request, const ServerSeat& seat, std::optional<uint64_t> committed,
             ServerOutbox* out);

  std::string checkpoints_;
  std::optional<Saving> saving_;
  CheckpointDone last_;  // of this plan; without a name: none
  bool orphaned_ = false;
  bool saves_for_itself_ = false;
};

}  // namespace dslide
