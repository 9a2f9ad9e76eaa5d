#include "scheduler/balance/balancer.h"
#include "scheduler/base/events.h"
#include "tests/support/events.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace dslide::balancer_test {
namespace {

constexpr uint32_t kSlots = 8;

Config AutoConfig() {
  Config config;
  config.train.staleness = -1;
  config.cluster.slots = kSlots;
  config.cluster.heartbeat_ms = 1000;
  ResolveConfig(50, 100, &config);
  return config;
}

// Two servers with four slots each. The loads are what the servers report.
struct BalancerRun {
  explicit BalancerRun(Config config = AutoConfig())
      : balancer(config), loads(std::vector<uint64_t>(config.cluster.slots, 1000)) {
    for (uint32_t i = 0; i < 2; ++i) {
      const Incarnation server{i + 1};
      plan.servers.push_back({"server-" + std::to_string(i + 1), "", server});
      loads.Add(server, 1, 0);
    }
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      plan.slot_owner.push_back(static_cast<uint16_t>(slot / 4));
    }
    leaving = {false, false};
  }
  // One server reports a second's work on its slots, whose executors take turns.
  void Report(uint32_t server, float work_of_even_slots, float work_of_odd_slots,
              std::vector<float> busy) {
    LoadReport report;
    report.interval_ms = 1000;
    report.batches = 10;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (plan.slot_owner[slot] != server) continue;
      report.slots.push_back(slot);
      report.executor.push_back(static_cast<uint16_t>(slot % busy.size()));
      report.work.push_back(slot % 2 == 0 ? work_of_even_slots : work_of_odd_slots);
      report.bytes.push_back(1000);
    }
    report.busy = std::move(busy);
    for (int i = 0; i < 3; ++i) loads.Report({server + 1}, report, 0);
  }
  Balancer::Decision Look(int64_t now_ms) {
    balancer.BeginLook(now_ms);
    return balancer.Look(View(), now_ms);
  }
  Balancer::View View() const {
    return {plan, loads, {Incarnation{1}, Incarnation{2}}, leaving, 100, true};
  }

  Balancer balancer;
  SlotLoads loads;
  Plan plan;
  std::vector<bool> leaving;
};

TEST_CASE("a look is due a heartbeat after the last one, and on every tick of a pause") {
  BalancerRun run;
  CHECK(run.balancer.LookGapMs() == 1000);
  CHECK(run.balancer.Due(false, 1000));
  run.balancer.BeginLook(1000);
  CHECK_FALSE(run.balancer.Due(false, 1999));
  CHECK(run.balancer.Due(true, 1001));
  CHECK(run.balancer.Due(false, 2000));
}

TEST_CASE("pauses are not most of the time: the gap grows with the last stall") {
  BalancerRun run;
  PlanSwitchReport report;
  report.stall_us = 2'000'000;
  run.balancer.Learn(report, 1000);
  CHECK(run.balancer.LookGapMs() == 6000);
  CHECK_FALSE(run.balancer.Due(false, 6999));
  CHECK(run.balancer.Due(false, 7000));
}

TEST_CASE("slots of a server that leaves move at once") {
  BalancerRun run;
  run.leaving[1] = true;
  const Balancer::Decision decision = run.Look(1000);
  REQUIRE(decision.wave);
  CHECK(decision.wave->moves.size() == 4);
  for (const SlotMove& move : decision.wave->moves) {
    CHECK(move.from == 1);
    CHECK(move.to == 0);
  }
  CHECK_FALSE(decision.wave->copied_before);  // small enough for one pause
}

TEST_CASE("slots of a server that leaves move where balancing is off, others do not") {
  Config config = AutoConfig();
  config.cluster.balance = Balance::kOff;
  BalancerRun run(config);
  CHECK_FALSE(run.Look(1000).wave);
  run.leaving[1] = true;
  CHECK(run.Look(2000).wave);
  run.balancer.CheckInvariants();
}

TEST_CASE("without measured capacities nothing moves for balance") {
  BalancerRun run;
  const Balancer::Decision decision = run.Look(1000);
  CHECK_FALSE(decision.wave);
  CHECK_FALSE(decision.uneven);
  CHECK_FALSE(decision.event);
}

TEST_CASE("a limited link has its slots copied before, and the patience follows it") {
  Config config = AutoConfig();
  config.cluster.move_mbit = 8;
  BalancerRun run(config);
  run.leaving[1] = true;
  const Balancer::Decision decision = run.Look(1000);
  REQUIRE(decision.wave);
  CHECK(decision.wave->copied_before);
  CHECK(decision.wave->bytes_per_second == 1'000'000);
  CHECK(decision.wave->patience_ms == 600'000);
}

TEST_CASE("the totals are the sums of all switches") {
  BalancerRun run;
  PlanSwitchReport report;
  report.slots = 3;
  report.bytes = 100;
  report.slot_bytes = 150;
  report.stall_us = 20'000;
  run.balancer.Learn(report, 1000);
  report.stall_us = 10'000;
  run.balancer.Learn(report, 2000);
  const MoveTotals& totals = run.balancer.totals();
  CHECK(totals.plans == 2);
  CHECK(totals.slots == 6);
  CHECK(totals.bytes == 200);
  CHECK(totals.slot_bytes == 300);
  CHECK(totals.longest_stall_us == 20'000);
  run.balancer.CheckInvariants();
}

TEST_CASE("a switch disturbs reports for as long as it stalls") {
  BalancerRun run;
  PlanSwitchReport report;
  report.stall_us = 600'000;
  CHECK(run.balancer.DisturbedReports(report) == 0);  // no slot moved
  report.slots = 1;
  CHECK(run.balancer.DisturbedReports(report) == 2);
  report.stall_us = 60'000'000;
  CHECK(run.balancer.DisturbedReports(report) == SlotLoads::kWarmUpReports);
}

TEST_CASE("an uneven load moves slots after it was seen three times and has cost enough") {
  BalancerRun run;
  run.Report(0, 30, 30, {0.9f});
  run.Report(1, 10, 10, {0.3f});
  int64_t now_ms = 1000;
  int looks = 0;
  Balancer::Decision decision;
  for (; looks < 20 && !decision.wave; now_ms += 1000, ++looks) decision = run.Look(now_ms);
  REQUIRE(decision.wave);
  CHECK(looks >= 3);
  REQUIRE(decision.event);
  CHECK(decision.event->Is(event::kSlotsMove));
  CHECK(std::get<double>(decision.event->fields.at(0).value) == doctest::Approx(1.5));
  double to_idle = 0;  // work per batch; slots may be exchanged
  for (const SlotMove& move : decision.wave->moves) {
    to_idle += (move.to == 1 ? 1 : -1) * run.loads.Load(move.slot);
  }
  CHECK(to_idle == doctest::Approx(4));
}

TEST_CASE("synchronous training moves nothing for balance") {
  Config config = AutoConfig();
  config.train.staleness = 0;
  BalancerRun run(config);
  run.Report(0, 30, 30, {0.9f});
  run.Report(1, 10, 10, {0.3f});
  for (int64_t now_ms = 1000; now_ms < 100000; now_ms += 1000) CHECK_FALSE(run.Look(now_ms).wave);
}

TEST_CASE("slots move until the load is even after a server has joined, then rest") {
  BalancerRun run;
  run.Report(0, 20, 20, {0.5f});
  run.Report(1, 20, 20, {0.5f});
  run.balancer.OnServersJoined();
  CHECK_FALSE(run.Look(1000).event);  // the loads may not have settled
  const Balancer::Decision rest = run.Look(20000);
  CHECK_FALSE(rest.wave);
  REQUIRE(rest.event);
  CHECK(Has({*rest.event}, event::kSlotsRest, {{"imbalance", 1.0}}));
  CHECK_FALSE(run.Look(21000).event);
}

TEST_CASE("executors that share a server's work badly get another plan, once for a skew") {
  BalancerRun calm;
  calm.Report(0, 30, 10, {0.6f, 0.6f});
  calm.Report(1, 20, 20, {0.6f, 0.6f});
  const Balancer::Decision decision = calm.Look(60000);
  REQUIRE(decision.uneven);
  CHECK(decision.uneven->server == Incarnation{1});
  calm.balancer.OnShared(*decision.uneven);
  CHECK_FALSE(calm.Look(61000).uneven);
  calm.balancer.Keep({});
  CHECK(calm.Look(62000).uneven);
}

}  // namespace
}  // namespace dslide::balancer_test
