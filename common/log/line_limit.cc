#include "common/log/line_limit.h"

#include <fmt/format.h>

#include <utility>

namespace dslide {

LineLimit::LineLimit(uint32_t max_burst, int64_t interval_ms)
    : max_burst_(max_burst), interval_ms_(interval_ms), free_(max_burst) {}

std::optional<Event> LineLimit::Admit(Event line, int64_t now_ms) {
  newest_ = std::move(line);
  newest_ms_ = now_ms;
  waiting_++;
  return Due(now_ms);
}

std::optional<Event> LineLimit::AdmitState(Event line, int64_t now_ms) {
  if (line.text != logged_) return Admit(std::move(line), now_ms);
  waiting_ = 0;
  return std::nullopt;
}

std::optional<Event> LineLimit::Due(int64_t now_ms) {
  Refill(now_ms);
  return free_ > 0 ? Flush(now_ms) : std::nullopt;
}

std::optional<Event> LineLimit::Flush(int64_t now_ms) {
  if (waiting_ == 0) return std::nullopt;
  if (free_ > 0) free_--;
  const uint64_t before = std::exchange(waiting_, 0) - 1;
  const int64_t age_s = (now_ms - newest_ms_) / 1000;
  Event line = *std::exchange(newest_, std::nullopt);
  logged_ = line.text;
  if (before > 0 && age_s > 0) {
    line.text += fmt::format(" (and {} before, {} s ago)", before, age_s);
  } else if (before > 0) {
    line.text += fmt::format(" (and {} before)", before);
  } else if (age_s > 0) {
    line.text += fmt::format(" ({} s ago)", age_s);
  }
  return line;
}

// An interval begins with the first line that takes from a full limit.
void LineLimit::Refill(int64_t now_ms) {
  const int64_t passed = (now_ms - refilled_ms_) / interval_ms_;
  if (passed > 0) {
    free_ = static_cast<uint32_t>(passed < max_burst_ - free_ ? free_ + passed : max_burst_);
    refilled_ms_ += passed * interval_ms_;
  }
  if (free_ == max_burst_) refilled_ms_ = now_ms;
}

std::optional<Event> EventLimit::Admit(Event event, int64_t now_ms) {
  const auto limit = limits_.try_emplace(event.kind, max_burst_).first;
  return limit->second.Admit(std::move(event), now_ms);
}

}  // namespace dslide
