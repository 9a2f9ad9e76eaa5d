// Lines of a log that peers can cause: some at once, then one a second, which counts those left
// out. Pure: time is passed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dslide {

class LineLimit {
 public:
  // `burst`: lines that may come at once.
  explicit LineLimit(uint32_t burst = 1) : burst_(burst), free_(burst) {}

  // The line to be written; nullopt: it is left out.
  std::optional<std::string> Take(std::string line, int64_t now_ms) {
    const int64_t passed = (now_ms - filled_ms_) / kEveryMs;
    if (passed > 0) {
      free_ = static_cast<uint32_t>(passed < burst_ - free_ ? free_ + passed : burst_);
      filled_ms_ += passed * kEveryMs;
    }
    if (free_ == 0) {
      ++left_out_;
      return std::nullopt;
    }
    --free_;
    if (left_out_ > 0) line += " (and " + std::to_string(left_out_) + " before)";
    left_out_ = 0;
    return line;
  }

 private:
  static constexpr int64_t kEveryMs = 1000;
  uint32_t burst_;
  uint32_t free_;
  int64_t filled_ms_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace dslide
