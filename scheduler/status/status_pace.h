// How often the status text is made: on the scheduler's thread, which has members to serve.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dslide {

// Four times a second, where that is cheap. With thousands of members a text takes long to make:
// then it takes a tenth of the time at most. Pure: times in milliseconds, of one clock.
class StatusPace {
 public:
  static constexpr int64_t kLeastMs = 250;
  static constexpr int64_t kCosts = 10;       // from one text to the next, in what one takes
  static constexpr int64_t kMostMs = 30'000;  // of a process that was stopped meanwhile, too

  // Whether the last text is old.
  bool Due(int64_t now_ms) const { return now_ms - begun_ms_ >= every_ms_; }
  // A text was begun then, and took so long.
  void Made(int64_t begun_ms, int64_t cost_ms) {
    begun_ms_ = begun_ms;
    every_ms_ = std::clamp(kCosts * cost_ms, kLeastMs, kMostMs);
  }
  int64_t every_ms() const { return every_ms_; }

 private:
  int64_t begun_ms_ = 0;
  int64_t every_ms_ = 0;  // the first one is due at once
};

}  // namespace dslide
