// Compares the work that an executor counts for its slots (server/executor/slots/slot_load.h) with
// the time it takes, over mixes of samples, features and neurons: `ns_per_work` should not depend
// on the mix.
#include <benchmark/benchmark.h>

#include <array>
#include <map>
#include <string>

#include "common/base/random.h"
#include "common/run/combine.h"
#include "common/run/slot_plan.h"
#include "server/executor/executor.h"
#include "tools/bench/benches.h"
#include "worker/batch_flight.h"

namespace dslide {
namespace {

struct Mix {
  const char* name;
  uint32_t samples = 128;
  uint32_t features = 75;  // a sample
  uint32_t labels = 5;
  uint32_t negatives = 2000;
  uint32_t candidates = 20;
  uint32_t feature_range = 136'000;
  uint32_t neurons = 200'000;
  bool hashed = true;
};

constexpr Mix kMixes[] = {
    {"typical"},
    {"few_features", 128, 10},
    {"many_features", 128, 300},
    {"many_labels", 128, 75, 50},
    {"few_negatives", 128, 75, 5, 300},
    {"many_negatives", 128, 75, 5, 6000},
    {"no_candidates", 128, 75, 5, 2000, 0},
    {"many_candidates", 128, 75, 5, 2000, 60},
    {"small_batches", 32},
    {"large_batches", 256},
    {"repeated_features", 128, 75, 5, 2000, 20, 7'500},
    {"small_batches_many_negatives", 32, 75, 5, 6000},
    {"few_neurons", 128, 75, 5, 2000, 20, 136'000, 12'000},
    {"no_tables", 128, 75, 5, 2000, 0, 136'000, 200'000, false},
    {"no_tables_small_batches", 32, 75, 5, 300, 0, 136'000, 200'000, false},
    {"large_batches_few_negatives", 256, 75, 2, 300, 10},
};

SparseRows RandomIds(uint32_t samples, uint32_t ids, uint32_t of, bool values, Random* random) {
  SparseRows rows;
  for (uint32_t i = 0; i < samples; ++i) {
    for (uint32_t j = 0; j < ids; ++j) {
      // One id of each of `ids` equal ranges, a range's lower ids more often.
      const double u = random->Uniform() * random->Uniform();
      rows.ids.push_back(static_cast<uint32_t>((j + u) * (of / ids)));
      if (values) rows.values.push_back(0.1f);
    }
    rows.EndRow();
  }
  return rows;
}

void TrainMix(benchmark::State& state, const Mix& mix, bool bf16) {
  constexpr uint32_t kFeatures = 136'000, kBatches = 16;
  Config config;
  config.model.hidden = bf16 ? 256 : 128;
  config.model.active = mix.hashed ? ActiveSet::kLsh : ActiveSet::kMass;
  config.model.precision = bf16 ? Precision::kBf16 : Precision::kFp32;
  config.model.candidates = mix.candidates;
  config.model.negatives = mix.negatives;
  config.train.optimizer = bf16 ? OptimizerKind::kAdaGrad : OptimizerKind::kAdam;
  config.train.batch = mix.samples;
  config.train.dropout_hidden = 0;
  config.cluster.slots = 64;
  ResolveConfig(kFeatures, mix.neurons, &config);
  std::vector<SlotId> slots;
  for (uint32_t s = 0; s < config.cluster.slots; ++s) slots.push_back({s});
  Executor executor(config, uint64_t{1} << 32, slots, Purpose::kTraining, BestKernels());
  executor.Initialise();
  Random random(1);
  std::vector<LeaseBatch> batches(kBatches);
  for (LeaseBatch& batch : batches) {
    batch.features = RandomIds(mix.samples, mix.features, mix.feature_range, true, &random);
    batch.labels = RandomIds(mix.samples, mix.labels, mix.neurons, false, &random);
  }
  const Plan plan = EqualPlan(1, config.cluster.slots, {{"", ""}});
  uint64_t next = 0;
  const auto train = [&] {
    LeaseBatch batch = batches[next % kBatches];
    LeaseGrant lease;
    lease.unit = static_cast<uint32_t>(next / config.train.unit_batches);
    batch.index = static_cast<uint32_t>(next % config.train.unit_batches);
    BatchFlight flight(config, plan, lease, std::move(batch), ++next);
    while (!flight.done()) {
      Body reply = executor.Handle({1}, flight.RequestFor(0));
      if (auto* active = std::get_if<ActiveReply>(&reply)) {
        const BatchId id = flight.id();
        Body second = executor.Handle({1}, Body(PushAfter(id, *active)));
        std::get<GradientReply>(second).active = std::move(*active);
        reply = std::move(second);
      }
      DSLIDE_CHECK(flight.Take(0, std::move(reply)).ok());
    }
  };
  for (uint32_t b = 0; b < kBatches; ++b) train();
  (void)executor.TakeLoad();
  for (auto _ : state) train();
  SlotCounts sum;
  for (const SlotId slot : slots) {
    const SlotCounts& counts = executor.load().Of(slot);
    sum.retrieved += counts.retrieved;
    sum.columns += counts.columns;
    sum.scores += counts.scores;
    sum.input_rows += counts.input_rows;
  }
  const ExecutorLoad load = executor.TakeLoad();
  double work = 0;
  for (const SlotCost& cost : load.slots) work += double{cost.work};
  const auto n = static_cast<double>(load.batches);
  state.counters["ns_per_work"] = 1e9 * load.busy_seconds / work;
  state.counters["us"] = 1e6 * load.busy_seconds / n;
  state.counters["samples"] = mix.samples;
  state.counters["retrieved"] = static_cast<double>(sum.retrieved) / n;
  state.counters["columns"] = static_cast<double>(sum.columns) / n;
  state.counters["scores"] = static_cast<double>(sum.scores) / n;
  state.counters["steps"] =
      mix.hashed ? static_cast<double>(executor.output().index()->tables().build_steps()) : 0;
  state.counters["input_rows"] = static_cast<double>(sum.input_rows) / n;
}

}  // namespace

void RegisterLoadBenches() {
  for (const bool bf16 : {false, true}) {
    for (const Mix& mix : kMixes) {
      benchmark::RegisterBenchmark(
          (std::string("Work/") + (bf16 ? "bf16_adagrad_256/" : "fp32_adam_128/") + mix.name)
              .c_str(),
          [&mix, bf16](benchmark::State& state) { TrainMix(state, mix, bf16); });
    }
  }
}

}  // namespace dslide
