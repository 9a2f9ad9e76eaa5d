// A time zone for the length of a test.
#pragma once

#include <time.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace dslide {

// Central Europe, by its rules: no files of time zones are needed.
constexpr const char* kBerlin = "CET-1CEST,M3.5.0,M10.5.0/3";

class TimeZone {
 public:
  explicit TimeZone(const char* zone) {
    if (const char* before = std::getenv("TZ")) before_ = before;
    Set(zone);
  }
  ~TimeZone() { Set(before_ ? before_->c_str() : nullptr); }
  TimeZone(const TimeZone&) = delete;
  TimeZone& operator=(const TimeZone&) = delete;

 private:
  static void Set(const char* zone) {
    if (zone == nullptr) {
      unsetenv("TZ");
    } else {
      setenv("TZ", zone, 1);
    }
    tzset();
  }

  std::optional<std::string> before_;
};

// UTC seconds of a time on the local clock.
inline int64_t LocalSeconds(int year, int month, int day, int hour, int minute = 0) {
  tm parts{};
  parts.tm_year = year - 1900;
  parts.tm_mon = month - 1;
  parts.tm_mday = day;
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_isdst = -1;
  return mktime(&parts);
}

}  // namespace dslide
