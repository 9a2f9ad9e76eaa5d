#include "tests/scheduler/support/moving_cluster.h"

#include <algorithm>

#include "tests/scheduler/support/step_cluster.h"

namespace dslide {
namespace {

Config Moving(Config config) {
  config.train.epochs = 4;
  config.cluster.slots = 16;
  config.cluster.balance = Balance::kAuto;
  config.cluster.takeover_s = 5;
  config.cluster.move_mbit = 1000;  // copied in the background before
  ResolveConfig(50, 32, &config);   // no more slots than labels
  return config;
}

}  // namespace

Config MoveConfig() { return Moving(RunConfig()); }
Config StepMoveConfig() { return Moving(StepConfig()); }

size_t SlotsIn(const Plan& plan, uint64_t member) {
  size_t slots = 0;
  for (const uint16_t owner : plan.slot_owner) {
    slots += plan.servers[owner].incarnation.value == member;
  }
  return slots;
}

bool HasSeat(const Plan& plan, uint64_t member) {
  return std::any_of(plan.servers.begin(), plan.servers.end(),
                     [&](const PlanServer& s) { return s.incarnation.value == member; });
}

std::vector<size_t> Changed(const Plan& before, const Plan& after) {
  std::vector<size_t> changed;
  for (size_t slot = 0; slot < before.slot_owner.size(); ++slot) {
    if (before.servers[before.slot_owner[slot]].incarnation !=
        after.servers[after.slot_owner[slot]].incarnation) {
      changed.push_back(slot);
    }
  }
  return changed;
}

std::vector<Plan> Planned(const FakeCluster& run) {
  std::vector<Plan> plans;
  for (const LedgerEntry& entry : run.entries) {
    if (const auto* planned = std::get_if<LedgerPlanned>(&entry)) plans.push_back(planned->plan);
  }
  return plans;
}

void Drain(FakeCluster* run, const std::string& name) {
  run->Join(21, Role::kObserver);
  run->Send(21, DrainServer{name});
}

void FinishRun(FakeCluster* run, uint64_t worker) {
  run->WorkAll(worker);
  REQUIRE(run->core().phase() == SchedulerCore::Phase::kFinished);
  CHECK(run->core().outcome().ok());
  run->CheckPromise();
  run->CheckAllCountedOnce(4);
}

void StopInPlanSwitch(FakeCluster* run) {
  run->Start();
  for (int i = 0; i < 5; ++i) REQUIRE(run->Work(11));
  run->Join(3, Role::kServer);
  while (run->core().plan().servers.size() == 2 || run->status().moving_slots == 0) run->Wait(1000);
  run->servers_answer = false;
  while (run->status().moving_slots > 0) run->Wait(1000);
  REQUIRE(SlotsIn(run->core().plan(), 3) > 0);
}

Joined::Joined() : FakeCluster(MoveConfig()) {
  Start();
  REQUIRE(Work(11));
}

}  // namespace dslide
