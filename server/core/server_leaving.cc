// Checkpoints of this server's part, and how it leaves.
#include <fmt/core.h>

#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "server/core/server_core.h"
#include "server/storage/shard_directory.h"

namespace dslide {
namespace {

constexpr int64_t kStopPatienceMs = 20000;  // for the checkpoint before leaving
constexpr int64_t kStopAgainMs = 2000;

}  // namespace

void ServerCore::OnCheckpoint(const CheckpointRequest& request) {
  if (!loaded_ || switch_ || without_slots_) return;  // the scheduler asks again
  if (saving_ && request.name == saving_->request.name) return;
  if (request.name == saved_.name) {  // the answer was lost
    effects_.to_scheduler.push_back(Envelop(saved_));
    return;
  }
  std::string why;
  if (saving_) why = fmt::format("{} is still being written", saving_->request.name);
  if (IsSynchronous(config_->train) && committed_ != request.committed) {
    why = fmt::format("{} steps are committed, not {}", committed_.value_or(0), request.committed);
  }
  if (why.empty()) return StartSave(request);
  CheckpointDone refused;
  refused.name = request.name;
  refused.error = why;
  refused.retry = true;
  effects_.to_scheduler.push_back(Envelop(std::move(refused)));
}

void ServerCore::StartSave(CheckpointRequest request) {
  const uint64_t ticket = next_ticket_++;
  checkpoints_ = ParentOf(request.directory);
  effects_.save = Save{request.name,
                       request.directory,
                       ShardName(plan_->version, index_),
                       request.keep,
                       SlotsOf(*plan_, {index_}),
                       IsSynchronous(config_->train) ? committed_ : std::nullopt,
                       ticket};
  saving_ = Saving{std::move(request), ticket};
}

ServerCore::Effects ServerCore::HandleSaved(uint64_t ticket, CheckpointDone done, int64_t now_ms) {
  if (!saving_ || saving_->ticket != ticket) return Drain();  // of an earlier plan
  done.name = saving_->request.name;
  done.shard = ShardName(plan_->version, index_);
  saving_.reset();
  if (orphaned_) {
    effects_.exit =
        TryLater(done.error.empty()
                     ? fmt::format("the scheduler is gone; its state is saved as {}/{}/{}",
                                   checkpoints_, done.name, done.shard)
                     : fmt::format("the scheduler is gone, and saving failed: {}", done.error));
    return Drain();
  }
  if (done.error.empty()) saved_ = done;
  effects_.to_scheduler.push_back(Envelop(std::move(done)));
  if (const auto plan = std::exchange(next_plan_, std::nullopt)) OnPlan(*plan, now_ms);
  return Drain();
}

ServerCore::Effects ServerCore::RequestStop(int64_t now_ms) {
  if (stop_requested_ && loaded_) {
    effects_.warnings.push_back(
        "stopped again: what others have not taken over of its slots is lost, and the cluster goes "
        "back to the last checkpoint");
  }
  if (stop_requested_ || !loaded_) {
    effects_.exit = TryLater("stopped by a signal");
    return Drain();
  }
  stop_requested_ = true;
  const uint32_t patience_s = config_->cluster.drain_s;
  stop_by_ms_ = now_ms + int64_t{1000} * patience_s;
  if (without_slots_) return Drain();  // once others have copied what it had
  if (plan_->servers.size() == 1 || patience_s == 0) {
    AskForCheckpoint(now_ms);
    return Drain();
  }
  effects_.notices.push_back("stopping: handing its slots to the other servers first");
  drain_sent_ms_ = now_ms - kStopAgainMs;
  TendStop(now_ms);
  return Drain();
}

// Asks again: a new life of the scheduler does not know of it.
void ServerCore::TendStop(int64_t now_ms) {
  if (!stop_requested_ || (without_slots_ && now_ms < stop_by_ms_)) return;
  if (now_ms >= stop_by_ms_) {
    if (stop_sequence_ || without_slots_) {
      effects_.exit = TryLater("stopped by a signal");
    } else {
      effects_.notices.push_back(
          fmt::format("its slots are not all with others after {} s (cluster.drain_s)",
                      config_->cluster.drain_s));
      AskForCheckpoint(now_ms);
    }
  } else if (stop_unheard_ && now_ms - stop_sent_ms_ >= kStopAgainMs) {
    SendCheckpointNow(now_ms);
  } else if (!stop_sequence_ && now_ms - drain_sent_ms_ >= kStopAgainMs) {
    drain_sent_ms_ = now_ms;
    effects_.to_scheduler.push_back(Envelop(DrainServer{given_name_}));
    drain_sequence_ = next_sequence_ - 1;
  }
}

// The scheduler's answer to what a server that stops has asked for. Refused is its decision; with
// anything else it has come to none (it may not know this server yet), and is asked again.
bool ServerCore::AnswersStop(const Message& message, int64_t now_ms) {
  const uint64_t to = message.envelope.reply_to;
  const bool to_stop = stop_sequence_ && to == *stop_sequence_;
  if (!to_stop && !(drain_sequence_ && to == *drain_sequence_)) return false;
  const auto* error = std::get_if<ErrorReply>(&message.body);
  if (error != nullptr && error->code != ErrorCode::kRefused) {
    stop_unheard_ = to_stop;
    OnSchedulerError(*error, now_ms);
  } else if (to_stop) {
    const bool saved = std::holds_alternative<CheckpointDone>(message.body);
    effects_.exit = saved ? Error{ErrorKind::kPreempted, "stopped by a signal, after a checkpoint"}
                          : TryLater("stopped by a signal, without a checkpoint");
  } else if (error != nullptr && loaded_) {
    effects_.notices.push_back("its slots stay here: " + error->text);
    AskForCheckpoint(now_ms);
  }
  return true;
}

void ServerCore::AskForCheckpoint(int64_t now_ms) {
  if (stop_sequence_) return;
  effects_.notices.push_back("stopping: asking for a checkpoint first");
  stop_by_ms_ = now_ms + kStopPatienceMs;
  SendCheckpointNow(now_ms);
}

void ServerCore::SendCheckpointNow(int64_t now_ms) {
  effects_.to_scheduler.push_back(Envelop(CheckpointNow{}));
  stop_sequence_ = next_sequence_ - 1;
  stop_sent_ms_ = now_ms;
  stop_unheard_ = false;
}

// Its part of the model is saved before it leaves; a scheduler that comes back finds it. From the
// mark on it takes no requests: what counts has to be in what was saved.
void ServerCore::LeaveWithoutScheduler(int64_t silent_ms) {
  if (orphaned_) return;
  const std::string why =
      fmt::format("nothing heard from the scheduler for {} s", silent_ms / 1000);
  if (!loaded_ || switch_ || without_slots_ || checkpoints_.empty()) {
    effects_.exit = TryLater(why);
    return;
  }
  orphaned_ = true;
  effects_.notices.push_back(why + "; saving what this server has");
  if (saving_) return;  // it leaves with that one
  CheckpointRequest request;
  request.name = fmt::format("orphan-{}-{}", plan_->version, committed_.value_or(0));
  request.directory = checkpoints_ + "/" + request.name;
  saves_orphan_ = true;
  StartSave(std::move(request));
}

ServerCore::Effects ServerCore::Goodbye(const Heartbeat& usage) {
  if (!config_) return Drain();
  SendHeartbeat(usage);
  effects_.to_scheduler.push_back(Envelop(Leave{}));
  return Drain();
}

}  // namespace dslide
