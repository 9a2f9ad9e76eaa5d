// The checkpoints of a server's part: one at a time, and the last one that the server writes by
// itself when the scheduler is gone.
//
// Invariant: a server that saves for itself is orphaned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/messages.h"
#include "server/core/outbox.h"
#include "server/core/seat.h"

namespace dslide {

class Saver {
 public:
  // `checkpoints`: the directory of the run's checkpoints; empty: not known yet.
  explicit Saver(std::string checkpoints) : checkpoints_(std::move(checkpoints)) {}

  // The scheduler asks for a checkpoint. `committed`: the steps that count, in synchronous
  // training. REQUIRES a seat with slots that are all loaded.
  void OnRequest(const CheckpointRequest& request, const ServerSeat& seat,
                 std::optional<uint64_t> committed, ServerOutbox* out);
  // The outcome of a ServerSave. False: of another one.
  bool Take(uint64_t ticket, CheckpointDone done, const ServerSeat& seat, ServerOutbox* out);
  // The slots have changed: the last checkpoint is of other ones.
  void ForgetLast() { last_ = CheckpointDone(); }

  // The scheduler is gone: the server saves its part, where a scheduler that comes back finds it,
  // and ends. `why` is for the log. REQUIRES as OnRequest(), and knows_directory().
  void SaveAndLeave(const std::string& why, const ServerSeat& seat,
                    std::optional<uint64_t> committed, ServerOutbox* out);
  // The scheduler was heard. A server that has begun to save for itself ends all the same.
  void HearScheduler() { orphaned_ = saves_for_itself_; }

  bool saving() const { return saving_.has_value(); }
  // It ends when the checkpoint that is being written is complete.
  bool orphaned() const { return orphaned_; }
  // From the mark on no request is taken: a batch that counts would be missing from what was saved.
  bool saves_for_itself() const { return saves_for_itself_; }
  bool knows_directory() const { return !checkpoints_.empty(); }
  const std::string& checkpoints() const { return checkpoints_; }

  void CheckInvariants() const;

 private:
  struct Saving {
    CheckpointRequest request;
    uint64_t ticket;
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
