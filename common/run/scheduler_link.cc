#include "common/run/scheduler_link.h"

#include <algorithm>

#include "common/base/random.h"

namespace dslide {

void SchedulerLink::BeginNewLife() {
  // The upper half tells the member's key.
  const uint64_t upper = incarnation_.value >> 32 << 32;
  const auto lower = static_cast<uint32_t>(Mix64(incarnation_.value));
  incarnation_ = {upper | std::max(lower, 1u)};
  life_sequence_ = next_sequence_;
  run_ = {};
}

void SchedulerLink::JoinSent(int64_t now_ms) {
  join_sent_ms_ = now_ms;
  if (!heard_ms_) heard_ms_ = now_ms;
}

Status DismissedBy(const Shutdown& shutdown) {
  const auto is = [&](ErrorKind kind) {
    return shutdown.exit_code == static_cast<uint32_t>(ExitCode(kind));
  };
  if (is(ErrorKind::kTryLater)) return TryLater(shutdown.reason);  // names the member, and why
  if (is(ErrorKind::kPreempted)) {
    return Error{ErrorKind::kPreempted, "dismissed by the scheduler: " + shutdown.reason};
  }
  return {};
}

}  // namespace dslide
