// Time and CPU time that a run has spent in training. The clock stands still while an evaluation
// runs or servers are missing; pauses for checkpoints and plan switches count. Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace dslide {

class TrainingClock {
 public:
  void Start(int64_t now_ms) { since_ms_ = now_ms; }
  // `cpu_seconds`: of all members since they started.
  void Stop(double cpu_seconds, int64_t now_ms) {
    ms_ = Millis(now_ms);
    since_ms_.reset();
    cpu_seconds_ = cpu_seconds;
  }

  bool running() const { return since_ms_.has_value(); }
  int64_t Millis(int64_t now_ms) const { return ms_ + (since_ms_ ? now_ms - *since_ms_ : 0); }
  double cpu_seconds() const { return cpu_seconds_; }  // when the clock last stopped

 private:
  int64_t ms_ = 0;  // without the stretch since since_ms_
  std::optional<int64_t> since_ms_;
  double cpu_seconds_ = 0;
};

}  // namespace dslide
