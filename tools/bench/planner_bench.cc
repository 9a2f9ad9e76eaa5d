// Plans for clusters whose slots' loads are as skewed as with Zipf-distributed labels.
#include <benchmark/benchmark.h>

#include "common/balance/planner.h"
#include "common/base/random.h"
#include "tools/bench/benches.h"

namespace dslide {
namespace {

enum class Situation { kUnequal, kNew, kLeaving, kVacant, kTooCoarse };

void Plans(benchmark::State& state, Situation situation) {
  const auto count = static_cast<uint32_t>(state.range(0));
  const auto slot_count = static_cast<uint32_t>(state.range(1));
  Random random(1);
  std::vector<BalanceOwner> owners;
  for (uint32_t o = 0; o < count; ++o) {
    owners.push_back({situation == Situation::kUnequal ? 0.5 + random.Uniform() : 1.0});
  }
  std::vector<BalanceSlot> slots;
  for (uint32_t s = 0; s < slot_count; ++s) {
    slots.push_back({std::exp(random.Normal()), 1'000'000 + random.Below(200'000),
                     static_cast<uint32_t>(uint64_t{s} * count / slot_count)});
    if (situation == Situation::kVacant) slots.back().owner = kNoOwner;
  }
  if (situation == Situation::kNew) owners.push_back({});
  if (situation == Situation::kLeaving) owners[0].leaving = true;
  if (situation == Situation::kTooCoarse) slots[0].load = slot_count;
  BalancePlan plan;
  for (auto _ : state) {
    plan = PlanBalance(owners, slots, {});
    benchmark::DoNotOptimize(plan);
  }
  state.counters["moves"] = static_cast<double>(plan.moves.size());
  state.counters["before"] = plan.before;
  state.counters["after"] = plan.after;
}

}  // namespace

void RegisterPlannerBenches() {
  const auto add = [](const char* name, Situation situation) {
    benchmark::RegisterBenchmark(name, Plans, situation)
        ->ArgNames({"owners", "slots"})
        ->Args({4, 256})
        ->Args({2, 65536})
        ->Args({1000, 65536})
        ->Unit(benchmark::kMillisecond);
  };
  add("Plan/unequal", Situation::kUnequal);
  add("Plan/new", Situation::kNew);
  add("Plan/leaving", Situation::kLeaving);
  add("Plan/vacant", Situation::kVacant);
  add("Plan/hot", Situation::kTooCoarse);
}

}  // namespace dslide
