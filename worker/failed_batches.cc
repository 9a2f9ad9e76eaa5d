#include "worker/failed_batches.h"

#include <fmt/core.h>

#include "common/base/plural.h"

namespace dslide {

std::optional<std::string> FailedBatches::Add(const std::string& line, int64_t now_ms) {
  if (counted_ == 0 && (!said_ms_ || now_ms - *said_ms_ >= kEveryMs)) {
    said_ms_ = now_ms;
    return line;
  }
  counted_++;
  last_ = line;
  return std::nullopt;
}

std::optional<std::string> FailedBatches::Due(int64_t now_ms) {
  if (counted_ == 0 || now_ms - *said_ms_ < kEveryMs) return std::nullopt;
  const std::string line =
      fmt::format("{} more ended early in {} s, the last: {}", Plural(counted_, "batch", "batches"),
                  (now_ms - *said_ms_) / 1000, last_);
  counted_ = 0;
  said_ms_ = now_ms;
  return line;
}

}  // namespace dslide
