#include "scheduler/pass/drift_alarm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "common/base/random.h"

namespace dslide::drift_alarm_test {
namespace {

constexpr uint32_t kLabels = 41218;  // log 10.6: rising by 1.06, drifting by 2.13
constexpr uint64_t kWindow = DriftAlarm::kLeastWindow;

void Add(DriftAlarm* alarm, const std::string& by, double loss, uint64_t batches) {
  for (uint64_t i = 0; i < batches; ++i) alarm->Add(by, loss);
}

TEST_CASE("drift: a loss that falls with noise, over epochs, is calm all the time") {
  DriftAlarm alarm(177, kLabels);
  Random random(7);
  for (int i = 0; i < 177 * 8; ++i) {
    const double mean = 2.5 + 8.0 * std::exp(-i / 300.0);
    alarm.Add(i % 3 == 0 ? "a" : "b", mean + 0.8 * (random.Uniform() - 0.5));
    CHECK(alarm.calm());
    CHECK_FALSE(alarm.drifting());
  }
  CHECK(alarm.lowest() < 2.8);
}

TEST_CASE("drift: two windows far above the lowest are an alarm, one is a doubt") {
  DriftAlarm alarm(100, kLabels);
  Add(&alarm, "a", 4.0, 2 * kWindow);
  Add(&alarm, "a", 9.0, DriftAlarm::kTrial);
  CHECK_FALSE(alarm.calm());
  Add(&alarm, "a", 9.0, kWindow - DriftAlarm::kTrial);
  CHECK_FALSE(alarm.drifting());
  Add(&alarm, "a", 9.0, kWindow);
  CHECK(alarm.drifting());
  CHECK(alarm.lowest() == doctest::Approx(4.0));
  CHECK(alarm.loss() == doctest::Approx(9.0));
  CHECK(alarm.WentBack());
  alarm.BeginGeneration();
  CHECK_FALSE(alarm.drifting());
  CHECK(alarm.calm());
}

TEST_CASE("drift: a bad window that passes is no alarm") {
  DriftAlarm alarm(100, kLabels);
  for (int i = 0; i < 5; ++i) {
    Add(&alarm, "a", 4.0, kWindow);
    Add(&alarm, "a", 9.0, kWindow);
    CHECK_FALSE(alarm.drifting());
  }
}

TEST_CASE("drift: a minority cannot raise or hide an alarm by what it reports") {
  DriftAlarm raised(100, kLabels), hidden(100, kLabels);
  for (DriftAlarm* alarm : {&raised, &hidden}) {
    for (const char* by : {"a", "b", "liar"}) Add(alarm, by, 4.0, 2 * kWindow);
  }
  for (uint64_t i = 0; i < 4 * kWindow; ++i) {
    raised.Add(i % 2 == 0 ? "a" : "b", 4.0);
    Add(&raised, "liar", 1e9, 5);
    CHECK_FALSE(raised.drifting());
    hidden.Add(i % 2 == 0 ? "a" : "b", 9.0);
    Add(&hidden, "liar", 0.0, 5);
  }
  CHECK(hidden.drifting());
}

TEST_CASE("drift: low losses of one that has left make no rise of the others") {
  DriftAlarm alarm(100, kLabels);
  for (uint64_t i = 0; i < 3 * kWindow; ++i) {
    alarm.Add("honest", 9.0);
    alarm.Add("easy", 0.01);
  }
  Add(&alarm, "honest", 9.0, 10 * kWindow);
  CHECK_FALSE(alarm.drifting());
  CHECK(alarm.calm());
  Add(&alarm, "honest", 12.0, 2 * kWindow);
  CHECK(alarm.drifting());
}

TEST_CASE("drift: a contributor is not compared with one that was alone and has left") {
  DriftAlarm alarm(100, kLabels);
  Add(&alarm, "easy", 0.01, 3 * kWindow);
  for (int i = 0; i < 10; ++i) {
    Add(&alarm, "honest", 9.0, kWindow);
    CHECK_FALSE(alarm.drifting());
    CHECK(alarm.calm());
  }
}

TEST_CASE("drift: one that trains little in each window is judged by several windows") {
  DriftAlarm alarm(100, kLabels);
  const auto add = [&](double rare, int windows) {
    for (int i = 0; i < windows; ++i) {
      Add(&alarm, "often", 4.0, kWindow - 2);
      Add(&alarm, "rare", rare, 2);
    }
  };
  add(6.0, 10);
  add(6.0 + 5.0, 1);
  CHECK_FALSE(alarm.drifting());  // the lower one of two counts
  Add(&alarm, "rare", 6.0 + 5.0, 2 * kWindow);
  CHECK(alarm.drifting());
}

TEST_CASE("drift: contributors of a batch each are compared with the lowest of all") {
  DriftAlarm alarm(100, kLabels);
  uint64_t number = 0;
  const auto add = [&](double loss, uint64_t batches) {
    for (uint64_t i = 0; i < batches; ++i) alarm.Add(std::to_string(number++), loss);
  };
  add(4.0, 2 * kWindow);
  CHECK_FALSE(alarm.drifting());
  add(9.0, 2 * kWindow);
  CHECK(alarm.drifting());
}

TEST_CASE("drift: who trained since the last calm window is named") {
  DriftAlarm alarm(100, kLabels);
  Add(&alarm, "a", 4.0, kWindow);
  CHECK(alarm.suspects().empty());
  Add(&alarm, "a", 9.0, kWindow + 5);
  Add(&alarm, "b", 9.0, kWindow - 5);
  REQUIRE(alarm.drifting());
  CHECK(alarm.suspects() ==
        std::map<std::string, uint64_t>{{"a", kWindow + 5}, {"b", kWindow - 5}});
}

TEST_CASE("drift: going back again and again is no help, unless a checkpoint came in between") {
  DriftAlarm alarm(100, kLabels);
  const auto drift = [&] {
    Add(&alarm, "a", 9.0, 2 * kWindow);
    REQUIRE(alarm.drifting());
    const bool helps = alarm.WentBack();
    alarm.BeginGeneration();
    return helps;
  };
  Add(&alarm, "a", 4.0, kWindow);
  alarm.Saved();
  for (uint32_t i = 0; i < DriftAlarm::kMostReturns; ++i) CHECK(drift());
  CHECK_FALSE(drift());
  alarm.Saved();
  CHECK(drift());
}

TEST_CASE("drift: who goes back to an early checkpoint for another reason begins with its loss") {
  DriftAlarm alarm(100, kLabels);
  Add(&alarm, "a", 10.0, kWindow);
  alarm.Saved();
  Add(&alarm, "a", 3.0, kWindow);
  alarm.BeginGeneration();
  Add(&alarm, "a", 9.5, 4 * kWindow);
  CHECK_FALSE(alarm.drifting());
  CHECK(alarm.calm());
  alarm.BeginGeneration();
  Add(&alarm, "a", 10.1, 4 * kWindow);
  CHECK_FALSE(alarm.drifting());
}

}  // namespace
}  // namespace dslide::drift_alarm_test
