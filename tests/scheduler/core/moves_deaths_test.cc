// Deaths while slots move.
#include "scheduler/base/events.h"
#include "scheduler/status/status.h"
#include "tests/scheduler/support/moving_cluster.h"

namespace dslide::moves_deaths_test {
namespace {

using Phase = SchedulerCore::Phase;

TEST_CASE("moves: deaths before the plan changes leave the owners as they are") {
  FakeCluster run(MoveConfig());
  run.servers.moves_answered = false;
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  Drain(&run, "server-2");
  run.Wait(3000);
  REQUIRE(run.status().moving_slots == 8);
  const MoveSlots order = LastOf<MoveSlots>(&run, 1);
  CHECK(order.slots.size() == 8);
  CHECK(order.from == std::vector<uint16_t>(8, 1));
  SUBCASE("a server that comes back as it was") {
    const uint64_t lost = 1;
    run.Silence(lost);
    run.Wait(kDeadMs);
    CHECK(run.core().phase() == Phase::kGathering);
    CHECK(run.status().moving_slots == 0);
    run.Return(lost);
    CHECK(run.core().phase() == Phase::kTraining);
    CHECK(run.core().plan_version() == 1);
  }
  SUBCASE("the target is lost for good: the one that shall leave takes its slots over") {
    run.Silence(1);
    run.Wait(kDeadMs + 6000);
    CHECK(run.status().recoveries == 1);
    CHECK(SlotsIn(run.core().plan(), 2) == 16);
  }
  SUBCASE("the source is lost for good") {
    run.Silence(2);
    run.Wait(kDeadMs + 6000);
    CHECK(run.status().recoveries == 1);
    CHECK(SlotsIn(run.core().plan(), 1) == 16);
  }
  SUBCASE("copies that nobody finishes are given up") {
    run.Wait(2500);
    CHECK(LastOf<MoveSlots>(&run, 1) == order);  // asked for again
    CHECK(run.CountTo<MoveSlots>(1) > 1);
    run.Wait(600'000);
    CHECK(run.CountTo<MoveSlots>(1) > 200);
    CHECK(LastOf<MoveSlots>(&run, 1).move > order.move);
  }
  run.servers.moves_answered = true;
  run.Wait(30'000);
  FinishRun(&run);
}

TEST_CASE("moves: a server without slots is lost, and the others go on") {
  Config config = MoveConfig();
  config.cluster.takeover_s = 0;  // and nobody waits for it
  FakeCluster run(config);
  run.servers.moves_answered = false;
  run.fenced_return = true;
  run.Start();
  for (int i = 0; i < 5; ++i) REQUIRE(run.Work(11));
  bool had_a_plan = false;
  SUBCASE("it has joined, and its first slots are being copied") {
    run.Join(3, Role::kServer);
    while (run.status().moving_slots == 0) run.Wait(1000);
    run.Silence(3);
    had_a_plan = true;
  }
  SUBCASE("it was lost before it had the plan that it joined with") {
    run.Join(3, Role::kServer);
    run.Silence(3);
    while (run.core().plan().servers.size() == 2) run.Wait(1000);
    CHECK_FALSE(run.core().roster().Find({3})->ready);
  }
  SUBCASE("the others take that plan up late") {
    run.Join(3, Role::kServer);
    run.Silence(3);
    run.servers_answer = false;
    while (run.core().plan().servers.size() == 2) run.Wait(1000);
    run.Wait(kDeadMs + 3000);
    CHECK(run.core().phase() == Phase::kGathering);
    run.servers_answer = true;
  }
  run.Wait(kDeadMs);
  CHECK(run.Noticed(event::kSpareGone, {{"server", "server-3"}}));
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK_FALSE(HasSeat(run.core().plan(), 3));
  CHECK(run.PlanOf(11) == run.core().plan());
  run.servers.moves_answered = true;
  run.Return(3);  // it was only silent: it joins again, and begins anew for that
  CHECK(run.servers.at(3).fenced == had_a_plan);
  run.Wait(30'000);
  CHECK(HasSeat(run.core().plan(), had_a_plan ? 1001 : 3));
  CHECK(run.status().recoveries == 0);
  FinishRun(&run);
}

TEST_CASE("moves: deaths while the plan changes") {
  FakeCluster run(MoveConfig());
  StopInPlanSwitch(&run);
  const Plan plan_switch = run.core().plan();
  CHECK(GenerationOf(plan_switch) == 1);
  CHECK_FALSE(run.core().roster().Find({3})->ready);
  SUBCASE("all take it up late") {
    run.Wait(5000);
    run.servers_answer = true;
    run.Wait(12'000);
    CHECK(GenerationOf(run.core().plan()) == 1);
    CHECK(run.status().recoveries == 0);
  }
  SUBCASE("a source dies: its slots are lost, and all goes back to the last checkpoint") {
    run.Silence(1);
    run.servers_answer = true;
    run.Wait(kDeadMs + 6000);
    CHECK(run.status().recoveries == 1);
    CHECK(GenerationOf(run.core().plan()) > 1);
    CHECK(run.status().batches == 0);
    CHECK_FALSE(HasSeat(run.core().plan(), 1));
  }
  SUBCASE("the target dies") {
    run.Silence(3);
    run.servers_answer = true;
    run.Wait(kDeadMs + 6000);
    CHECK(run.status().recoveries == 1);
    CHECK(run.status().batches == 0);
    CHECK_FALSE(HasSeat(run.core().plan(), 3));
  }
  SUBCASE("nobody dies, but the plan is never taken up") {
    run.Wait(62'000);
    CHECK(run.status().recoveries >= 1);
    CHECK(GenerationOf(run.core().plan()) == run.core().plan_version());
    CHECK(run.Noticed(event::kSlotMapFailed, {{"source_lost", false}}));
    run.servers_answer = true;
    run.Wait(1000);
  }
  run.Wait(30'000);
  CHECK(run.core().phase() == Phase::kTraining);
  FinishRun(&run);
}

TEST_CASE("moves: the scheduler dies between its ledger and what it sends") {
  FakeCluster run(MoveConfig());
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  run.Join(3, Role::kServer);
  while (SlotsIn(run.core().plan(), 3) == 0 && run.status().moving_slots == 0) run.Wait(1000);
  uint64_t told = 0;  // of the plan's recipients
  SUBCASE("nobody was told") {}
  SUBCASE("one server has taken it up") { told = 1; }
  SUBCASE("two servers have") { told = 2; }
  SUBCASE("all have, no worker knows") { told = 3; }
  run.dies_after = 1 + told;
  const size_t plans = Planned(run).size();
  while (!run.died) {
    run.now += 1000;
    run.Tick();
  }
  REQUIRE(Planned(run).size() == plans + 1);
  const Plan plan_switch = Planned(run).back();
  CHECK(GenerationOf(plan_switch) == 1);
  // Its status is asked for before anybody has come back.
  run.servers_answer = false;
  run.Restart();
  CHECK_FALSE(StatusJson(run.status(), {}, LearningCurve(), "").empty());
  CHECK(run.status().imbalance >= 1);
  run.servers_answer = true;
  run.Join(12, Role::kWorker);
  run.Wait(3000);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.status().recoveries == 0);
  CHECK(GenerationOf(run.core().plan()) == 1);
  CHECK(run.core().plan_version() >= plan_switch.version);
  CHECK(run.status().batches == 5);
  FinishRun(&run, 12);
}

TEST_CASE("moves: a server comes back with the plan that it had taken up before it was missed") {
  FakeCluster run(MoveConfig());
  run.servers.slot_work.assign(16, 10);
  run.servers.capacity[2] = 300;
  run.Start();
  REQUIRE(run.Work(11));
  while (run.status().moving_slots == 0) run.Wait(1000);
  run.servers_answer = false;
  while (run.status().moving_slots > 0) run.Wait(1000);
  const Plan plan_switch = run.core().plan();
  REQUIRE(plan_switch.version == 2);
  run.servers.ready_lost = 1;
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.servers.at(1).loaded == plan_switch.version);
  REQUIRE_FALSE(run.core().roster().Find({1})->ready);
  run.Silence(1);
  run.Wait(kDeadMs);
  REQUIRE(run.core().roster().Find({1}) == nullptr);
  run.servers.ready_lost = 0;
  run.Return(1);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.core().roster().Find({1})->ready);
  run.Wait(70'000);  // as long as nobody waits for a plan to be taken up
  CHECK(run.status().recoveries == 0);
  CHECK(GenerationOf(run.core().plan()) == 1);
  FinishRun(&run);
}

TEST_CASE("moves: training time does not go back when a plan cannot be taken up") {
  FakeCluster run(MoveConfig());
  StopInPlanSwitch(&run);
  run.Wait(50'000);
  const int64_t before = run.status().training_ms;
  run.Wait(20'000);
  run.servers_answer = true;
  run.Wait(1000);
  CHECK(run.status().recoveries == 1);
  CHECK(run.status().training_ms >= before);
}

}  // namespace
}  // namespace dslide::moves_deaths_test
