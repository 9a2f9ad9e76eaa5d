#include "worker/in_flight_control.h"

#include <algorithm>

namespace dslide {

void InFlightControl::Note(int64_t now_us, int64_t elapsed_us, int64_t service_us) {
  if (fixed_) return;
  if (skip_ > 0) {
    if (--skip_ == 0) started_us_ = now_us;
    return;
  }
  if (started_us_ == 0) {
    started_us_ = now_us;
    return;
  }
  elapsed_us_ += static_cast<double>(elapsed_us);
  service_us_ += static_cast<double>(service_us);
  if (++batches_ < std::max(kRoundBatches, 3 * limit_)) return;
  const auto round_us = static_cast<double>(std::max<int64_t>(1, now_us - started_us_));
  const double rate = batches_ / round_us;
  const double at_servers = limit_ * service_us_ / std::max(1.0, elapsed_us_);
  batches_ = 0;
  elapsed_us_ = service_us_ = 0;
  started_us_ = now_us;
  Decide(rate, at_servers);
}

void InFlightControl::Interrupt() {
  if (trial_) limit_ = limit_before_;
  trial_ = false;
  skip_ = batches_ = 0;
  started_us_ = 0;
  elapsed_us_ = service_us_ = 0;
}

void InFlightControl::Decide(double rate, double at_servers) {
  if (trial_) {
    trial_ = false;
    const double hoped = static_cast<double>(limit_) / limit_before_;  // growth of the rate
    if (rate < rate_before_ * (1 + kLeastGain * (hoped - 1))) {
      pause_ = next_pause_;
      next_pause_ = std::min(2 * next_pause_, kLongestPause);
      return Change(limit_before_);
    }
  }
  if (at_servers > kMostAtServers && limit_ > kFewest) return Change(limit_ - 1);
  if (pause_ > 0) {
    --pause_;
    return;
  }
  if (at_servers >= 1 || limit_ == kMost) return;
  trial_ = true;
  limit_before_ = limit_;
  rate_before_ = rate;
  Change(std::min(kMost, limit_ + std::max(1u, limit_ / 2)));
}

void InFlightControl::Change(uint32_t limit) {
  limit_ = limit;
  skip_ = limit;
}

}  // namespace dslide
