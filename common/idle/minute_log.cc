#include "common/idle/minute_log.h"

#include <utility>

namespace dslide {

std::string MinuteLog::Note(const std::string& line, int64_t now_ms) {
  kept_ = line == said_ ? "" : line;
  return Due(now_ms);
}

std::string MinuteLog::Due(int64_t now_ms) {
  if (kept_.empty() || (said_ms_ && now_ms - *said_ms_ < kEveryMs)) return "";
  said_ms_ = now_ms;
  said_ = std::exchange(kept_, "");
  return said_;
}

}  // namespace dslide
