#include "common/base/process.h"

#include <doctest/doctest.h>
#include <signal.h>

namespace dslide {
namespace {

TEST_CASE("a clock of the time awake leaves out what a process slept through") {
  AwakeClock clock;
  CHECK(clock.At(5'000'000) == 5'000'000);
  CHECK(clock.At(6'400'000) == 6'400'000);   // busy
  CHECK(clock.At(66'400'000) == 6'500'000);  // stopped for a minute
  CHECK(clock.At(66'500'000) == 6'600'000);
}

TEST_CASE("signals within a second of the one that counted are the same one") {
  {
    StopSignals signals;
    CHECK_FALSE(signals.TakeAt(5000));
    REQUIRE(raise(SIGTERM) == 0);
    CHECK(signals.TakeAt(5000));
    CHECK_FALSE(signals.TakeAt(5001));
    REQUIRE(raise(SIGTERM) == 0);
    CHECK_FALSE(signals.TakeAt(5000 + StopSignals::kSameMs - 1));
    CHECK_FALSE(signals.TakeAt(5000 + StopSignals::kSameMs));  // it has been taken, with no effect
    REQUIRE(raise(SIGINT) == 0);
    CHECK(signals.TakeAt(5000 + StopSignals::kSameMs));
  }
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  CHECK(pthread_sigmask(SIG_UNBLOCK, &set, nullptr) == 0);
}

TEST_CASE("silence is reported every 30 s, from the last that was heard") {
  SilenceReport silence;
  CHECK_FALSE(silence.Due(1000, 1000));
  CHECK_FALSE(silence.Due(1000, 30'999));
  CHECK(silence.Due(1000, 31'000));
  CHECK_FALSE(silence.Due(1000, 31'001));
  CHECK(silence.Due(1000, 61'000));
  CHECK_FALSE(silence.Due(70'000, 91'000));  // it has been heard
  CHECK(silence.Due(70'000, 100'000));
}

}  // namespace
}  // namespace dslide
