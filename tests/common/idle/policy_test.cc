#include "common/idle/policy.h"

#include <doctest/doctest.h>

#include "tests/common/idle/time_zone.h"

namespace dslide::policy_test {
namespace {

constexpr uint64_t kMb = 1 << 20;

IdleConfig Rules() {
  IdleConfig rules;
  rules.given = true;
  return rules;
}

// A policy on a machine under a clock of its own, which goes on a second with each look.
struct Machine {
  explicit Machine(const IdleConfig& rules) : policy(rules) {}

  PauseReason Look(double others, std::optional<double> waiting = std::nullopt) {
    MachineSample sample = base;
    sample.others_cpu = others;
    sample.waiting = waiting;
    return Decide(sample);
  }
  PauseReason Decide(const MachineSample& sample) {
    ++seconds;
    last = policy.Decide(sample, start + seconds, 1000 * seconds);
    CHECK(last.pauses() == !last.why.empty());
    return last.reason;
  }
  // How many looks it takes until it computes again, with others at `others`.
  int LooksToGoOn(double others) {
    for (int looks = 1; looks <= 100; ++looks) {
      if (Look(others) == PauseReason::kNone) return looks;
    }
    return -1;
  }

  IdlePolicy policy;
  MachineSample base;
  int64_t start = 1'800'000'000;
  int64_t seconds = 0;
  IdleDecision last;
};

constexpr PauseReason kRuns = PauseReason::kNone;
constexpr PauseReason kOthers = PauseReason::kOthers;

TEST_CASE("a worker pauses when others use the machine, and goes on after a time of quiet") {
  Machine machine(Rules());
  CHECK(machine.Look(0.1) == kRuns);
  CHECK(machine.Look(0.6) == kRuns);  // a short command
  CHECK(machine.Look(0.1) == kRuns);
  CHECK(machine.Look(0.6) == kRuns);
  CHECK(machine.Look(0.6) == kOthers);
  CHECK(machine.last.why == "others use 60 % of the CPU");
  CHECK(machine.LooksToGoOn(0) == 6);  // 5 s after the first look that found it quiet
}

TEST_CASE("what is started on a busy machine pauses at once") {
  Machine machine(Rules());
  CHECK(machine.Look(0.6) == kOthers);
}

TEST_CASE("between a limit and four fifths of it all stays as it is") {
  Machine machine(Rules());
  for (int i = 0; i < 20; ++i) CHECK(machine.Look(0.24) == kRuns);
  (void)machine.Look(0.5);
  CHECK(machine.Look(0.5) == kOthers);
  for (int i = 0; i < 20; ++i) CHECK(machine.Look(0.21) == kOthers);
  // Quiet that is interrupted begins anew.
  for (int i = 0; i < 5; ++i) CHECK(machine.Look(0.1) == kOthers);
  CHECK(machine.Look(0.22) == kOthers);
  CHECK(machine.LooksToGoOn(0.1) == 6);
}

TEST_CASE("waiting processes double what others use at most, and alone say nothing") {
  Machine machine(Rules());
  for (int i = 0; i < 10; ++i) CHECK(machine.Look(0.0, 1.0) == kRuns);   // the worker's own
  for (int i = 0; i < 10; ++i) CHECK(machine.Look(0.15, 0.0) == kRuns);  // there is room for both
  (void)machine.Look(0.15, 0.9);
  CHECK(machine.Look(0.15, 0.9) == kOthers);
  CHECK(machine.last.why == "others use 30 % of the CPU");
  CHECK(machine.LooksToGoOn(0) == 6);
}

TEST_CASE("without CPU times pressure or load decides") {
  Machine machine(Rules());
  MachineSample sample;
  CHECK(machine.Decide(sample) == kRuns);
  sample.waiting = 0.5;
  CHECK(machine.Decide(sample) == kRuns);
  CHECK(machine.Decide(sample) == kOthers);
}

TEST_CASE("pause_cpu_percent = 0 never pauses for others") {
  IdleConfig rules = Rules();
  rules.pause_cpu_percent = 0;
  Machine machine(rules);
  for (int i = 0; i < 10; ++i) CHECK(machine.Look(1.0, 1.0) == kRuns);
}

TEST_CASE("on battery it pauses unless the owner says otherwise") {
  IdleConfig rules = Rules();
  Machine machine(rules);
  machine.base.on_battery = true;
  CHECK(machine.Look(0) == PauseReason::kBattery);
  machine.base.on_battery = false;
  CHECK(machine.Look(0) == kRuns);
  rules.on_battery = OnBattery::kRun;
  machine.policy.SetRules(rules);
  machine.base.on_battery = true;
  CHECK(machine.Look(0) == kRuns);
}

TEST_CASE("memory: fewer batches near the limit, a pause above, until there is room") {
  IdleConfig rules = Rules();
  rules.memory_mb = 100;
  Machine machine(rules);
  machine.base.resident_bytes = 80 * kMb;
  CHECK(machine.Look(0) == kRuns);
  CHECK(machine.last.in_flight_cap == 0);
  machine.base.resident_bytes = 91 * kMb;
  CHECK(machine.Look(0) == kRuns);
  CHECK(machine.last.in_flight_cap == 1);
  machine.base.resident_bytes = 100 * kMb;
  CHECK(machine.Look(0) == PauseReason::kMemory);
  machine.base.resident_bytes = 85 * kMb;
  CHECK(machine.Look(0) == PauseReason::kMemory);
  machine.base.resident_bytes = 79 * kMb;
  CHECK(machine.Look(0) == kRuns);
}

TEST_CASE("the day's transfer ends at the local midnight") {
  const TimeZone zone(kBerlin);
  IdleConfig rules = Rules();
  rules.daily_transfer_mb = 10;
  Machine machine(rules);
  machine.start = LocalSeconds(2026, 3, 28, 22);
  machine.base.transferred_today = 10 * kMb - 1;
  CHECK(machine.Look(0) == kRuns);
  machine.base.transferred_today = 10 * kMb;
  CHECK(machine.Look(0) == PauseReason::kTransfer);
  CHECK(machine.last.until_unix_s == LocalSeconds(2026, 3, 29, 0));
  machine.base.transferred_today = 0;
  CHECK(machine.Look(0) == kRuns);
}

TEST_CASE("hours of a week") {
  const TimeZone zone(kBerlin);
  IdleConfig rules = Rules();
  rules.hours = *WeekHours::Parse("mon-fri 20:00-06:00");
  Machine machine(rules);
  machine.start = LocalSeconds(2026, 11, 25, 12) - 1;  // a Wednesday
  CHECK(machine.Look(0) == PauseReason::kHours);
  CHECK(machine.last.until_unix_s == LocalSeconds(2026, 11, 25, 20));
  machine.start = LocalSeconds(2026, 11, 25, 20);
  CHECK(machine.Look(0) == kRuns);
  machine.start = LocalSeconds(2026, 11, 28, 20);
  CHECK(machine.Look(0) == PauseReason::kHours);
  CHECK(machine.last.until_unix_s == LocalSeconds(2026, 11, 30, 20));
}

TEST_CASE("new rules count at once, and what is known of the machine stays") {
  IdleConfig rules = Rules();
  Machine machine(rules);
  (void)machine.Look(0.6);
  rules.pause_cpu_percent = 70;
  machine.policy.SetRules(rules);
  CHECK(machine.Look(0.6) == kOthers);  // not below four fifths of 70 %
  rules.pause_cpu_percent = 0;
  machine.policy.SetRules(rules);
  CHECK(machine.Look(0.6) == kRuns);
}

}  // namespace
}  // namespace dslide::policy_test
