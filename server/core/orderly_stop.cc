#include "server/core/orderly_stop.h"

#include <fmt/core.h>

#include "common/base/check.h"
#include "common/log/events.h"
#include "server/base/events.h"

namespace dslide {
namespace {

constexpr int64_t kCheckpointPatienceMs = 20000;
constexpr int64_t kAskAgainMs = 2000;

}  // namespace

void OrderlyStop::Request(const Situation& server, int64_t now_ms, ServerOutbox* out) {
  if (requested_ && server.loaded) {
    out->Warn({event::kStopRequested,
               "second signal: leaving at once; slots that no other server has taken over are "
               "lost, and the cluster goes back to the last checkpoint"});
  }
  if (requested_ || !server.loaded) return out->Exit(TryLater("stopped by a signal"));
  requested_ = true;
  leave_by_ms_ = now_ms + int64_t{1000} * server.drain_s;
  if (!server.has_slots) return;  // it leaves once others have copied what it had
  if (server.servers == 1 || server.drain_s == 0) return AskForCheckpoint(now_ms, out);
  out->Notice(
      {event::kStopRequested, "stopping: handing this server's slots to the other servers first"});
  drain_sent_ms_ = now_ms - kAskAgainMs;
  Advance(server, now_ms, out);
}

void OrderlyStop::Advance(const Situation& server, int64_t now_ms, ServerOutbox* out) {
  if (!requested_ || (!server.has_slots && now_ms < leave_by_ms_)) return;
  // It writes to the end, however long that takes, and then waits for servers that are slower.
  if (checkpoint_sequence_ && server.saving) leave_by_ms_ = now_ms + kCheckpointPatienceMs;
  if (now_ms >= leave_by_ms_) {
    if (checkpoint_sequence_ || !server.has_slots) {
      return out->Exit(TryLater("stopped by a signal"));
    }
    out->Notice({event::kServerDrainLate,
                 fmt::format("after {} s (cluster.drain_s) some slots are still on this server",
                             server.drain_s),
                 {{"seconds", server.drain_s}}});
    AskForCheckpoint(now_ms, out);
  } else if (checkpoint_unheard_ && now_ms - checkpoint_sent_ms_ >= kAskAgainMs) {
    SendCheckpointNow(now_ms, out);
  } else if (!checkpoint_sequence_ && now_ms - drain_sent_ms_ >= kAskAgainMs) {
    drain_sent_ms_ = now_ms;
    drain_sequence_ = out->ToScheduler(DrainServer{server.name});
  }
}

OrderlyStop::Answer OrderlyStop::Take(const Message& message, const Situation& server,
                                      int64_t now_ms, ServerOutbox* out) {
  const uint64_t to = message.envelope.reply_to;
  const bool to_checkpoint = checkpoint_sequence_ && to == *checkpoint_sequence_;
  if (!to_checkpoint && !(drain_sequence_ && to == *drain_sequence_)) return Answer::kNotToThis;
  const auto* error = std::get_if<ErrorReply>(&message.body);
  if (error != nullptr && error->code != ErrorCode::kRefused) {
    checkpoint_unheard_ = to_checkpoint;
    return Answer::kOtherError;
  }
  if (to_checkpoint) {
    const bool saved = std::holds_alternative<CheckpointDone>(message.body);
    out->Exit(saved ? Error{ErrorKind::kPreempted, "stopped by a signal, after a checkpoint"}
                    : TryLater("stopped by a signal, without a checkpoint"));
  } else if (error != nullptr && server.loaded) {
    out->Notice({event::kServerKeepsSlots, "this server keeps its slots: " + error->text});
    AskForCheckpoint(now_ms, out);
  }
  return Answer::kTaken;
}

void OrderlyStop::AskForCheckpoint(int64_t now_ms, ServerOutbox* out) {
  if (checkpoint_sequence_) return;
  out->Notice({event::kStopRequested, "stopping: asking for a checkpoint first"});
  leave_by_ms_ = now_ms + kCheckpointPatienceMs;
  SendCheckpointNow(now_ms, out);
}

void OrderlyStop::SendCheckpointNow(int64_t now_ms, ServerOutbox* out) {
  checkpoint_sequence_ = out->ToScheduler(CheckpointNow{});
  checkpoint_sent_ms_ = now_ms;
  checkpoint_unheard_ = false;
}

void OrderlyStop::CheckInvariants(const SchedulerLink& link) const {
  DSLIDE_CHECK(requested_ || (!drain_sequence_ && !checkpoint_sequence_));
  DSLIDE_CHECK(!checkpoint_unheard_ || checkpoint_sequence_);
  DSLIDE_CHECK(drain_sequence_.value_or(0) <= link.last_sequence());
  DSLIDE_CHECK(checkpoint_sequence_.value_or(0) <= link.last_sequence());
}

}  // namespace dslide
