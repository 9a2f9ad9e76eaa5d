// common/idle over whole days of a virtual clock: what a worker that always wants more gets.
#include <doctest/doctest.h>

#include <fmt/core.h>

#include <algorithm>

#include "common/idle/account.h"
#include "common/idle/budget.h"
#include "common/idle/local_time.h"
#include "common/idle/policy.h"
#include "tests/common/idle/time_zone.h"

namespace dslide::simulated_day_test {
namespace {

constexpr int64_t kStepMs = 50;  // as often as a worker looks
constexpr double kTolerance = 0.05;

// A batch of the simulated worker: larger than what a step of the caps allows.
constexpr double kBatchCpuS = 0.09;
constexpr size_t kBatchBytesUp = 70'000;
constexpr size_t kBatchBytesDown = 50'000;

struct Day {
  double computed_s = 0;  // in which it could begin batches
  Deeds done;
  Totals totals;

  double upload_kbit() const { return 8e-3 * static_cast<double>(done.bytes_sent) / computed_s; }
  double download_kbit() const {
    return 8e-3 * static_cast<double>(done.bytes_received) / computed_s;
  }
};

// From one local midnight to another.
Day Simulate(const IdleConfig& rules, int64_t begin, int64_t end) {
  IdlePolicy policy(rules);
  Budget cpu(rules.cpu_share == 100 ? 0 : 0.01 * rules.cpu_share);
  Budget up(125.0 * rules.upload_kbit), down(125.0 * rules.download_kbit);
  Account account("");
  Day day;
  day.totals = *account.Read(LocalTimeAt(begin).date);
  IdleDecision decision;
  int64_t busy_until_ms = 0;
  for (int64_t ms = 0; ms < 1000 * (end - begin); ms += kStepMs) {
    const int64_t now = begin + ms / 1000;
    if (ms % 1000 == 0) {
      MachineSample sample;
      sample.transferred_today = account.Read(LocalTimeAt(now).date)->today.transferred();
      decision = policy.Decide(sample, now, ms);
    }
    const bool may = cpu.MayBegin(1000 * ms) & up.MayBegin(1000 * ms) & down.MayBegin(1000 * ms);
    if (decision.pauses()) continue;
    day.computed_s += 1e-3 * kStepMs;
    if (!may || ms < busy_until_ms) continue;
    busy_until_ms = ms + static_cast<int64_t>(1000 * kBatchCpuS);
    cpu.Take(kBatchCpuS);
    up.Take(kBatchBytesUp);
    down.Take(kBatchBytesDown);
    const Deeds batch{64, kBatchCpuS, kBatchBytesUp, kBatchBytesDown};
    day.done += batch;
    day.totals = *account.Add(batch, LocalTimeAt(now).date);
  }
  return day;
}

void CheckNear(const char* what, double got, double cap) {
  fmt::print("{}: {:.3f} of {:.3f} ({:+.2f} %)\n", what, got, cap, 100 * (got / cap - 1));
  CHECK(std::abs(got - cap) <= kTolerance * cap);
}

struct Fixture {
  TimeZone zone{kBerlin};
  IdleConfig rules;
  int64_t begin = LocalSeconds(2026, 11, 25, 0), end = LocalSeconds(2026, 11, 26, 0);
};

TEST_CASE_FIXTURE(Fixture, "a simulated day: the CPU share is within 5 %") {
  for (const uint32_t share : {5, 30, 80}) {
    rules.cpu_share = share;
    const Day day = Simulate(rules, begin, end);
    CheckNear("CPU s a second", day.done.cpu_s / day.computed_s, 0.01 * share);
  }
}

TEST_CASE_FIXTURE(Fixture, "a simulated day: upload and download are within 5 %") {
  rules.upload_kbit = 1000;
  CheckNear("upload kbit/s", Simulate(rules, begin, end).upload_kbit(), 1000);
  rules.upload_kbit = 0;
  rules.download_kbit = 300;
  const Day day = Simulate(rules, begin, end);
  CheckNear("download kbit/s", day.download_kbit(), 300);
  rules.upload_kbit = 100;  // the stricter of the two
  CheckNear("upload kbit/s", Simulate(rules, begin, end).upload_kbit(), 100);
}

TEST_CASE_FIXTURE(Fixture, "a simulated day: the day's transfer is within 5 %, and begins anew") {
  rules.daily_transfer_mb = 200;
  rules.hours = *WeekHours::Parse("12:00-11:00");
  const Day day = Simulate(rules, begin, end);
  CheckNear("MB a day", static_cast<double>(day.done.transferred()) / (1 << 20), 200);
  const Day two = Simulate(rules, begin, LocalSeconds(2026, 11, 27, 0));
  CheckNear("MB in two days", static_cast<double>(two.done.transferred()) / (1 << 20), 400);
  CHECK(two.totals.date == 20261126);
}

}  // namespace
}  // namespace dslide::simulated_day_test
