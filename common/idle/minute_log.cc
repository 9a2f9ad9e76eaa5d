#include "common/idle/minute_log.h"

#include <fmt/format.h>

#include <utility>

namespace dslide {

std::string MinuteLog::Note(const std::string& line, int64_t now_ms) {
  kept_ = line == said_ ? "" : line;
  kept_ms_ = now_ms;
  return Due(now_ms);
}

std::string MinuteLog::Due(int64_t now_ms) {
  if (said_ms_ && now_ms - *said_ms_ < kEveryMs) return "";
  return Last(now_ms);
}

std::string MinuteLog::Last(int64_t now_ms) {
  if (kept_.empty()) return "";
  said_ms_ = now_ms;
  said_ = std::exchange(kept_, "");
  const int64_t age_s = (now_ms - kept_ms_) / 1000;
  return age_s == 0 ? said_ : fmt::format("{} ({} s ago)", said_, age_s);
}

}  // namespace dslide
