#include "common/base/process.h"

#include <doctest/doctest.h>

namespace dslide {
namespace {

TEST_CASE("a clock of the time awake leaves out what a process slept through") {
  AwakeClock clock;
  CHECK(clock.At(5'000'000) == 5'000'000);
  CHECK(clock.At(6'400'000) == 6'400'000);   // busy
  CHECK(clock.At(66'400'000) == 6'500'000);  // stopped for a minute
  CHECK(clock.At(66'500'000) == 6'600'000);
}

}  // namespace
}  // namespace dslide
