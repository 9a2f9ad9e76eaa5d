// Decides when a silent member is suspect, and when it counts as dead.
//
// Every member sends a heartbeat each cluster.heartbeat_ms, and any message proves life. A node
// that is slow to send, or behind a slow link, gets more time: the deadlines follow the observed
// gaps between its messages, as TCP's retransmission timer follows round trips (mean and mean
// deviation; Jacobson, SIGCOMM 1988). Compare the accrual detectors of Hayashibara et al., SRDS
// 2004. Pure: time is passed in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace dslide {

class FailureDetector {
 public:
  FailureDetector(int64_t heartbeat_ms, int64_t now_ms)
      : heartbeat_ms_(heartbeat_ms),
        heard_ms_(now_ms),
        mean_ms_(static_cast<double>(heartbeat_ms)) {}

  void Heard(int64_t now_ms) {
    const int64_t gap = now_ms - heard_ms_;
    heard_ms_ = now_ms;
    if (gap < heartbeat_ms_ / 2) return;  // busy: says nothing about the length of a silence
    const double error = static_cast<double>(gap) - mean_ms_;
    mean_ms_ += error / 8;
    deviation_ms_ += (std::abs(error) - deviation_ms_) / 4;
  }

  int64_t heard_ms() const { return heard_ms_; }
  int64_t SilentMs(int64_t now_ms) const { return now_ms - heard_ms_; }

  // Something may be wrong: a waiting replacement may take the member's place at once.
  bool Suspect(int64_t now_ms) const { return SilentMs(now_ms) > SuspectAfterMs(); }
  // The member counts as dead.
  bool Dead(int64_t now_ms) const { return SilentMs(now_ms) > DeadAfterMs(); }

  int64_t SuspectAfterMs() const {
    const auto adapted = static_cast<int64_t>(2 * (mean_ms_ + 4 * deviation_ms_));
    return std::clamp(adapted, heartbeat_ms_ * 5 / 2, heartbeat_ms_ * kMostHeartbeats / 3);
  }
  int64_t DeadAfterMs() const { return 3 * SuspectAfterMs(); }

 private:
  static constexpr int64_t kMostHeartbeats = 60;

  int64_t heartbeat_ms_;
  int64_t heard_ms_;
  double mean_ms_;
  double deviation_ms_ = 0;
};

}  // namespace dslide
