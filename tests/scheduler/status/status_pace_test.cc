#include "scheduler/status/status_pace.h"

#include <doctest/doctest.h>

namespace dslide::status_pace_test {
namespace {

TEST_CASE("status pace: the first text is due at once, and the next one a quarter of a second on") {
  StatusPace pace;
  CHECK(pace.Due(0));
  pace.Made(1000, 3);
  CHECK_FALSE(pace.Due(1000));
  CHECK_FALSE(pace.Due(1249));
  CHECK(pace.Due(1250));
}

TEST_CASE("status pace: texts take a tenth of the time at most") {
  StatusPace pace;
  pace.Made(1000, 25);
  CHECK(pace.every_ms() == 250);
  pace.Made(2000, 80);
  CHECK_FALSE(pace.Due(2799));
  CHECK(pace.Due(2800));
  // A dear text does not make those after it rare.
  pace.Made(2800, 1);
  CHECK(pace.Due(3050));
}

TEST_CASE("status pace: a process that was stopped in the middle shows its status again soon") {
  StatusPace pace;
  pace.Made(1000, 3'600'000);
  CHECK_FALSE(pace.Due(30'999));
  CHECK(pace.Due(31'000));
}

}  // namespace
}  // namespace dslide::status_pace_test
