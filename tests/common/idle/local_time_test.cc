#include "common/idle/local_time.h"

#include <doctest/doctest.h>

#include "tests/common/idle/time_zone.h"

namespace dslide::local_time_test {
namespace {

constexpr int64_t kHour = 3600;

WeekHours Hours(const char* text) { return *WeekHours::Parse(text); }

TEST_CASE("the local clock has its own midnight") {
  const TimeZone zone(kBerlin);
  const int64_t midnight = LocalSeconds(2026, 11, 26, 0);
  CHECK(LocalTimeAt(midnight) == LocalTime{4, 0, 20261126});
  CHECK(LocalTimeAt(midnight - 1) == LocalTime{3, 24 * 60 - 1, 20261125});
  CHECK(NextDay(midnight - 1) == midnight);
  CHECK(NextDay(midnight) == midnight + 24 * kHour);
}

TEST_CASE("hours change by the clock on the wall, whatever daylight saving does") {
  const TimeZone zone(kBerlin);
  const WeekHours night = Hours("18:00-08:00");
  // On 29 March 2026 the clock goes from 2:00 to 3:00, on 25 October from 3:00 to 2:00.
  const int64_t spring = LocalSeconds(2026, 3, 28, 18), autumn = LocalSeconds(2026, 10, 24, 18);
  CHECK(NextChange(night, spring) - spring == 13 * kHour);
  CHECK(NextChange(night, autumn) - autumn == 15 * kHour);
  CHECK(NextChange(night, NextChange(night, spring)) == LocalSeconds(2026, 3, 29, 18));
  CHECK(NextDay(LocalSeconds(2026, 3, 29, 0)) - LocalSeconds(2026, 3, 29, 0) == 23 * kHour);
  CHECK(NextDay(LocalSeconds(2026, 10, 25, 0)) - LocalSeconds(2026, 10, 25, 0) == 25 * kHour);
  // An hour that does not come does not begin; one that comes twice counts twice.
  const WeekHours lost = Hours("sun 02:00-03:00");
  CHECK(NextChange(lost, spring) == LocalSeconds(2026, 4, 5, 2));
  const int64_t twice = NextChange(lost, autumn);
  CHECK(NextChange(lost, twice) - twice == 2 * kHour);
}

TEST_CASE("hours that never change have no next change") {
  CHECK(NextChange(Hours("always"), 1'800'000'000) == 0);
  CHECK(NextChange(Hours("00:00-24:00"), 1'800'000'000) == 0);
}

TEST_CASE("hours of one day a week come a week later") {
  const TimeZone zone("UTC0");
  const WeekHours hours = Hours("wed 12:00-12:01");
  const int64_t noon = LocalSeconds(2026, 11, 25, 12);
  CHECK(Contains(hours, noon));
  CHECK(NextChange(hours, noon) == noon + 60);
  CHECK(NextChange(hours, noon + 60) == noon + 7 * 24 * kHour);
}

TEST_CASE("a time near now has its weekday, others their date") {
  const TimeZone zone("UTC0");
  const int64_t now = LocalSeconds(2026, 11, 25, 12);
  CHECK(ClockText(now + 6 * kHour, now) == "Wed 18:00");
  CHECK(ClockText(now - 6 * kHour, now) == "Wed 06:00");
  CHECK(ClockText(now + 7 * 24 * kHour, now) == "2026-12-02 12:00");
}

}  // namespace
}  // namespace dslide::local_time_test
