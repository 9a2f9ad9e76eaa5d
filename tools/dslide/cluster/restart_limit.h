// Limits the restarts of a process that dies again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace dslide {

class RestartLimit {
 public:
  // A process may be restarted kRestarts times within kWindowMs; once it has lived for kHealthyMs,
  // the count begins anew.
  static constexpr size_t kRestarts = 5;
  static constexpr int64_t kWindowMs = 10'000;
  static constexpr int64_t kHealthyMs = 2'000;

  // Notes that the process died, `lived_ms` after its start. True if it may be started again.
  bool Allow(int64_t lived_ms, int64_t now_ms) {
    if (lived_ms >= kHealthyMs) restarts_ms_.clear();
    while (!restarts_ms_.empty() && now_ms - restarts_ms_.front() >= kWindowMs) {
      restarts_ms_.pop_front();
    }
    if (restarts_ms_.size() >= kRestarts) return false;
    restarts_ms_.push_back(now_ms);
    return true;
  }

 private:
  std::deque<int64_t> restarts_ms_;
};

}  // namespace dslide
