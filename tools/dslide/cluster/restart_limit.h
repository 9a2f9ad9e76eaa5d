// Limits the restarts of a process that dies again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dslide {

class RestartLimit {
 public:
  // A process may be restarted kQuick times within kWindowMs, and kInARow times without a life of
  // kHealthyMs in between.
  static constexpr size_t kQuick = 5;
  static constexpr int64_t kWindowMs = 10'000;
  static constexpr size_t kInARow = 20;
  static constexpr int64_t kHealthyMs = 60'000;

  // Notes that the process died, `lived_ms` after its start. "" if it may be started again, else
  // how often it has died: "6 times within 10 s".
  std::string WhyNot(int64_t lived_ms, int64_t now_ms) {
    if (lived_ms >= kHealthyMs) restarts_ms_.clear();
    if (restarts_ms_.size() >= kInARow) {
      return std::to_string(kInARow + 1) + " times, each within " +
             std::to_string(kHealthyMs / 1000) + " s of its start";
    }
    if (restarts_ms_.size() >= kQuick &&
        now_ms - restarts_ms_[restarts_ms_.size() - kQuick] < kWindowMs) {
      return std::to_string(kQuick + 1) + " times within " + std::to_string(kWindowMs / 1000) +
             " s";
    }
    restarts_ms_.push_back(now_ms);
    return "";
  }

 private:
  std::vector<int64_t> restarts_ms_;  // since the last healthy life
};

}  // namespace dslide
