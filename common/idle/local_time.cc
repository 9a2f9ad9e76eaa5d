#include "common/idle/local_time.h"

#include <time.h>

#include <cstdlib>

namespace dslide {
namespace {

constexpr int64_t kMinute = 60;
constexpr int64_t kDay = 24 * 3600;
// Hours repeat every week; one more day for the hours that clocks are changed.
constexpr int64_t kLongestWait = 8 * kDay;

tm Parts(int64_t unix_s) {
  const time_t time = unix_s;
  tm parts{};
  localtime_r(&time, &parts);
  return parts;
}

// The first full minute (of the local clock) after `unix_s` for which `holds`; 0: none within a
// week. Time zones differ from UTC by whole minutes.
template <typename Condition>
int64_t NextMinuteThat(int64_t unix_s, Condition holds) {
  const int64_t first = unix_s - unix_s % kMinute + kMinute;
  for (int64_t at = first; at < first + kLongestWait; at += kMinute) {
    if (holds(at)) return at;
  }
  return 0;
}

}  // namespace

LocalTime LocalTimeAt(int64_t unix_s) {
  const tm parts = Parts(unix_s);
  return {parts.tm_wday, 60 * parts.tm_hour + parts.tm_min,
          10'000 * (parts.tm_year + 1900) + 100 * (parts.tm_mon + 1) + parts.tm_mday};
}

bool Contains(const WeekHours& hours, int64_t unix_s) {
  if (hours.always()) return true;
  const LocalTime local = LocalTimeAt(unix_s);
  return hours.Contains(local.weekday, local.minute);
}

int64_t NextChange(const WeekHours& hours, int64_t unix_s) {
  if (hours.always()) return 0;
  const bool now = Contains(hours, unix_s);
  return NextMinuteThat(unix_s, [&](int64_t at) { return Contains(hours, at) != now; });
}

int64_t NextDay(int64_t unix_s) {
  const int32_t today = LocalTimeAt(unix_s).date;
  return NextMinuteThat(unix_s, [&](int64_t at) { return LocalTimeAt(at).date != today; });
}

std::string ClockText(int64_t unix_s, int64_t now_unix_s) {
  const tm parts = Parts(unix_s);
  const bool is_near = std::abs(unix_s - now_unix_s) < 6 * kDay;
  char text[64];
  const size_t size = strftime(text, sizeof text, is_near ? "%a %H:%M" : "%Y-%m-%d %H:%M", &parts);
  return std::string(text, size);
}

}  // namespace dslide
