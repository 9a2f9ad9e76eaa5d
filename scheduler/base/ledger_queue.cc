#include "scheduler/base/ledger_queue.h"

#include <utility>

namespace dslide {

void LedgerQueue::Add(SchedulerEffects effects) {
  if (!effects.empty()) held_.push_back({std::move(effects)});
}

Status LedgerQueue::Write(Held* held) {
  if (!held->appended) DSLIDE_RETURN_IF_ERROR(ledger_.Append(held->effects.ledger));
  held->appended = true;
  return held->effects.sync_ledger ? ledger_.Sync() : Status();
}

Result<std::optional<SchedulerEffects>> LedgerQueue::Next(int64_t now_ms) {
  const bool too_early = wait_ && now_ms < wait_->again_ms;
  if (held_.empty() || too_early) return std::optional<SchedulerEffects>();
  const Status written = Write(&held_.front());
  if (!written.ok() && written.error().kind != ErrorKind::kTryLater) return written.error();
  if (!written.ok()) {
    const int64_t since_ms = wait_ ? wait_->since_ms : now_ms;
    wait_ = Wait{written.error().message, since_ms, now_ms + kAgainMs};
    return std::optional<SchedulerEffects>();
  }
  wait_.reset();
  std::optional<SchedulerEffects> effects = std::move(held_.front().effects);
  held_.pop_front();
  return effects;
}

void LedgerQueue::Clear() {
  held_.clear();
  wait_.reset();
}

}  // namespace dslide
