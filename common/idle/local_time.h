// The local clock of this machine (the time zone of TZ or /etc/localtime).
//
// Rules are about what a clock on the wall shows, so an hour that daylight saving leaves out or
// repeats is left out or repeated for them too.
#pragma once

#include <cstdint>
#include <string>

#include "common/config/week_hours.h"

namespace dslide {

struct LocalTime {
  int weekday = 0;   // 0: Sunday
  int minute = 0;    // of the day
  int32_t date = 0;  // 20261231

  bool operator==(const LocalTime&) const = default;
};

// `unix_s`: seconds since 1970, UTC.
LocalTime LocalTimeAt(int64_t unix_s);

bool Contains(const WeekHours& hours, int64_t unix_s);
// The first moment after `unix_s` at which the hours begin or end; 0: they never do.
int64_t NextChange(const WeekHours& hours, int64_t unix_s);
// The first moment of the next day.
int64_t NextDay(int64_t unix_s);

// "Mon 18:00", within six days from now; else with the date.
std::string ClockText(int64_t unix_s, int64_t now_unix_s);

}  // namespace dslide
