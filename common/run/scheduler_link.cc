#include "common/run/scheduler_link.h"

#include "common/base/random.h"

namespace dslide {

void SchedulerLink::BeginNewLife() {
  incarnation_ = {Mix64(incarnation_.value)};
  life_sequence_ = next_sequence_;
  run_ = {};
}

void SchedulerLink::JoinSent(int64_t now_ms) {
  join_sent_ms_ = now_ms;
  if (!heard_ms_) heard_ms_ = now_ms;
}

}  // namespace dslide
