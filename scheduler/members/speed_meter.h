// The recent rate of batches per second. Pure: time is passed in.
#pragma once

#include <cmath>
#include <cstdint>

namespace dslide {

// Counts and time both fade with the same time constant, so the rate is right from the first
// seconds on and an idle meter falls slowly.
class SpeedMeter {
 public:
  explicit SpeedMeter(int64_t now_ms) : now_ms_(now_ms) {}

  void Add(double count, int64_t now_ms) {
    Advance(now_ms);
    count_ += count;
  }

  // Per second; 0 before the first count.
  double Rate(int64_t now_ms) const {
    SpeedMeter at = *this;
    at.Advance(now_ms);
    return at.seconds_ > 0 ? at.count_ / at.seconds_ : 0;
  }

 private:
  static constexpr double kSeconds = 10;

  void Advance(int64_t now_ms) {
    const double passed = static_cast<double>(now_ms - now_ms_) / 1000;
    if (passed <= 0) return;
    const double fade = std::exp(-passed / kSeconds);
    count_ *= fade;
    seconds_ = seconds_ * fade + kSeconds * (1 - fade);
    now_ms_ = now_ms;
  }

  int64_t now_ms_;
  double count_ = 0;
  double seconds_ = 0;
};

}  // namespace dslide
