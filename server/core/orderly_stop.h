// How a server leaves after SIGTERM without losing what it has.
//
// It asks the scheduler to have its slots handed to other servers, and leaves when they have them
// (ServerCore sees to that). If nobody can take them, or not in time (cluster.drain_s), it asks for
// a checkpoint of the cluster and leaves after that. Both are asked for again while nobody has
// decided. A second signal, and a server that has nothing loaded, end at once.
//
// Invariants: nothing is asked for before Request(); what may be unheard has been sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/messages.h"
#include "server/core/outbox.h"

namespace dslide {

class OrderlyStop {
 public:
  // The server as it stops.
  struct Situation {
    bool loaded;       // its slots
    bool has_slots;    // the plan has it; false: others copy what it had
    size_t servers;    // of the plan
    uint32_t drain_s;  // cluster.drain_s
    std::string name;  // by which the scheduler knows it
  };
  enum class Answer { kNotToThis, kTaken, kOtherError };

  bool requested() const { return requested_; }
  // A signal came.
  void Request(const Situation& server, int64_t now_ms, ServerOutbox* out);
  // Goes on, and asks again. A new life of the scheduler does not know what was asked before.
  void Advance(const Situation& server, int64_t now_ms, ServerOutbox* out);
  // Takes the scheduler's answer to what was asked. kRefused is a decision; for any other error the
  // scheduler has come to none (it may not know this server yet) and is asked again, but the error
  // itself is for the caller (kOtherError).
  Answer Take(const Message& message, const Situation& server, int64_t now_ms, ServerOutbox* out);
  // Another life of the scheduler was heard.
  void MeetScheduler() { checkpoint_unheard_ = checkpoint_sequence_.has_value(); }

  void CheckInvariants(const SchedulerLink& link) const;

 private:
  void AskForCheckpoint(int64_t now_ms, ServerOutbox* out);
  void SendCheckpointNow(int64_t now_ms, ServerOutbox* out);

  bool requested_ = false;
  int64_t leave_by_ms_ = 0;
  std::optional<uint64_t> drain_sequence_;  // of the last DrainServer
  int64_t drain_sent_ms_ = 0;
  std::optional<uint64_t> checkpoint_sequence_;  // of the last CheckpointNow
  int64_t checkpoint_sent_ms_ = 0;
  bool checkpoint_unheard_ = false;  // the CheckpointNow may be lost, or nobody decided about it
};

}  // namespace dslide
