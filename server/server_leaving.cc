// Checkpoints of this server's part, and how it leaves.
#include <fmt/core.h>

#include "common/config/step.h"
#include "common/net/slot_plan.h"
#include "server/server_core.h"
#include "server/shard_directory.h"

namespace dslide {
namespace {

constexpr int64_t kStopPatienceMs = 20000;  // for the checkpoint before leaving
constexpr int64_t kDrainAgainMs = 2000;

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

void ServerCore::OnCheckpoint(const CheckpointRequest& request) {
  if (!loaded_ || flip_ || departing_) return;  // the scheduler asks again
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
  if (!saving_ || saving_->ticket != ticket) return Take();  // of an earlier plan
  done.name = saving_->request.name;
  done.shard = ShardName(plan_->version, index_);
  saving_.reset();
  if (leaving_) {
    effects_.exit =
        TryLater(done.error.empty()
                     ? fmt::format("the scheduler is gone; its state is saved as {}/{}/{}",
                                   checkpoints_, done.name, done.shard)
                     : fmt::format("the scheduler is gone, and saving failed: {}", done.error));
    return Take();
  }
  if (done.error.empty()) saved_ = done;
  effects_.to_scheduler.push_back(Envelop(std::move(done)));
  if (const auto plan = std::exchange(next_plan_, std::nullopt)) OnPlan(*plan, now_ms);
  return Take();
}

ServerCore::Effects ServerCore::RequestStop(int64_t now_ms) {
  if (stopping_ || !loaded_) {
    effects_.exit = TryLater("stopped by a signal");
    return Take();
  }
  stopping_ = true;
  const uint32_t patience_s = config_->cluster.drain_s;
  stop_by_ms_ = now_ms + int64_t{1000} * patience_s;
  if (departing_) return Take();  // once others have copied what it had
  if (plan_->servers.size() == 1 || patience_s == 0) {
    AskForCheckpoint(now_ms);
    return Take();
  }
  effects_.notices.push_back("stopping: handing its slots to the other servers first");
  drain_sent_ms_ = now_ms - kDrainAgainMs;
  TendStop(now_ms);
  return Take();
}

// Asks again: a new life of the scheduler does not know of it.
void ServerCore::TendStop(int64_t now_ms) {
  if (!stopping_ || (departing_ && now_ms < stop_by_ms_)) return;
  if (now_ms >= stop_by_ms_) {
    if (stop_sequence_ || departing_) {
      effects_.exit = TryLater("stopped by a signal");
    } else {
      effects_.notices.push_back(
          fmt::format("its slots are not all with others after {} s (cluster.drain_s)",
                      config_->cluster.drain_s));
      AskForCheckpoint(now_ms);
    }
  } else if (!stop_sequence_ && now_ms - drain_sent_ms_ >= kDrainAgainMs) {
    drain_sent_ms_ = now_ms;
    effects_.to_scheduler.push_back(Envelop(DrainServer{Name()}));
    drain_sequence_ = next_sequence_ - 1;
  }
}

void ServerCore::AskForCheckpoint(int64_t now_ms) {
  if (stop_sequence_) return;
  effects_.notices.push_back("stopping: asking for a checkpoint first");
  effects_.to_scheduler.push_back(Envelop(CheckpointNow{}));
  stop_sequence_ = next_sequence_ - 1;
  stop_by_ms_ = now_ms + kStopPatienceMs;
}

// Its part of the model is saved before it leaves; a scheduler that comes back finds it. From the
// mark on it takes no requests: what counts has to be in what was saved.
void ServerCore::LeaveWithoutScheduler(int64_t silent_ms) {
  if (leaving_) return;
  const std::string why =
      fmt::format("nothing heard from the scheduler for {} s", silent_ms / 1000);
  if (!loaded_ || flip_ || departing_ || checkpoints_.empty()) {
    effects_.exit = TryLater(why);
    return;
  }
  leaving_ = true;
  effects_.notices.push_back(why + "; saving what this server has");
  if (saving_) return;  // it leaves with that one
  CheckpointRequest request;
  request.name = fmt::format("orphan-{}-{}", plan_->version, committed_.value_or(0));
  request.directory = checkpoints_ + "/" + request.name;
  saves_orphan_ = true;
  StartSave(std::move(request));
}

ServerCore::Effects ServerCore::Goodbye(const Heartbeat& usage) {
  if (!config_) return Take();
  SendHeartbeat(usage);
  effects_.to_scheduler.push_back(Envelop(Leave{}));
  return Take();
}

}  // namespace dslide
