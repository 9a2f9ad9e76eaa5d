#include "common/base/process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace dslide::process_test {
namespace {

TEST_CASE("a clock of the time awake leaves out what a process slept through") {
  AwakeClock clock;
  CHECK(clock.At(5'000'000) == 5'000'000);
  CHECK(clock.At(6'400'000) == 6'400'000);   // busy
  CHECK(clock.At(66'400'000) == 6'500'000);  // stopped for a minute
  CHECK(clock.At(66'500'000) == 6'600'000);
}

// What StopSignals leaves blocked or ignored.
void UnblockAll() {
  sigset_t none;
  sigemptyset(&none);
  CHECK(pthread_sigmask(SIG_SETMASK, &none, nullptr) == 0);
  CHECK((signal(SIGPIPE, SIG_DFL) != SIG_ERR));
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
    REQUIRE(raise(SIGHUP) == 0);
    CHECK(signals.TakeAt(5000 + 2 * StopSignals::kSameMs));
  }
  UnblockAll();
}

TEST_CASE("what is started under nohup is not stopped by SIGHUP") {
  REQUIRE((signal(SIGHUP, SIG_IGN) != SIG_ERR));
  {
    StopSignals signals;
    REQUIRE(raise(SIGHUP) == 0);
    CHECK_FALSE(signals.TakeAt(5000));
  }
  UnblockAll();
  REQUIRE((signal(SIGHUP, SIG_DFL) == SIG_IGN));
}

TEST_CASE("writing to a closed pipe is an error, not the end") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  {
    StopSignals signals;
    CHECK(write(ends[1], "x", 1) == -1);
    CHECK(errno == EPIPE);
  }
  close(ends[1]);
  UnblockAll();
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
}  // namespace dslide::process_test
