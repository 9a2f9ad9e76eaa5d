// How a server leaves after SIGTERM without losing its part of the model.
//
// The server asks the scheduler to move its slots to other servers, and leaves when they have them
// (ServerCore checks that). If no server can take them, or not in time (cluster.drain_s), it asks
// for a checkpoint of the cluster and leaves after that, or when 20 s have passed in which it wrote
// none. It repeats both requests until the scheduler has decided. After a second signal, or with
// nothing loaded, it ends at once.
//
// Invariants: nothing is asked for before Request(); only a request that was sent can be unheard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/messages.h"
#include "server/base/outbox.h"

namespace dslide {

class OrderlyStop {
 public:
  // The server as it stops.
  struct Situation {
    bool loaded;       // its slots
    bool has_slots;    // the plan has this server; false: other servers copy the slots it had
    bool saving;       // a checkpoint is being written here
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
  // Takes the scheduler's answer to a request of this class. kRefused is a decision. After any
  // other error the scheduler is asked again, because it may not know this server yet; the error
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
