#include "common/config/week_hours.h"

#include <doctest/doctest.h>

namespace dslide::week_hours_test {
namespace {

constexpr int kSun = 0, kMon = 1, kFri = 5, kSat = 6;

constexpr int At(int hour, int minute = 0) { return 60 * hour + minute; }

WeekHours Hours(const char* text) {
  const auto hours = WeekHours::Parse(text);
  REQUIRE(hours.has_value());
  CHECK(WeekHours::Parse(hours->text()) == hours);
  return *hours;
}

TEST_CASE("hours over midnight") {
  const WeekHours night = Hours("18:00-08:00");
  for (int day = 0; day < 7; ++day) {
    CHECK(night.Contains(day, At(18)));
    CHECK(night.Contains(day, At(0)));
    CHECK(night.Contains(day, At(7, 59)));
    CHECK_FALSE(night.Contains(day, At(8)));
    CHECK_FALSE(night.Contains(day, At(17, 59)));
  }
}

TEST_CASE("hours of weekdays belong to the day on which they begin") {
  const WeekHours hours = Hours("mon-fri 18:00-08:00, sat 00:00-24:00");
  CHECK_FALSE(hours.Contains(kMon, At(7)));  // that would be Sunday's
  CHECK(hours.Contains(kMon, At(18)));
  CHECK(hours.Contains(kFri, At(23, 59)));
  CHECK(hours.Contains(kSat, At(7)));
  CHECK(hours.Contains(kSat, At(12)));
  CHECK(hours.Contains(kSat, At(23, 59)));
  CHECK_FALSE(hours.Contains(kSun, At(0)));
  const WeekHours weekend = Hours("fri-mon 12:00-13:00");
  CHECK(weekend.Contains(kSun, At(12)));
  CHECK_FALSE(weekend.Contains(kMon + 1, At(12)));
}

TEST_CASE("hours without a limit") {
  CHECK(Hours("always").always());
  CHECK(Hours("00:00-24:00").Contains(kSat, At(23, 59)));
}

TEST_CASE("text that is not hours is refused") {
  for (const char* text :
       {"", "never", "8-18", "08:00", "08:00-08:00", "25:00-26:00", "08:60-09:00", "24:00-01:00",
        "monday 08:00-09:00", "mon- 08:00-09:00", "08:00-09:00,", "Mon 08:00-09:00", "-08:00-09:00",
        "08:00 09:00", "0a:00-09:00"}) {
    CAPTURE(text);
    CHECK_FALSE(WeekHours::Parse(text).has_value());
  }
}

}  // namespace
}  // namespace dslide::week_hours_test
