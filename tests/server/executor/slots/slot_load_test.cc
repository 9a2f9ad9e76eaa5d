// What slots cost: the counts against what was done, and the report made of them.
#include "server/executor/slots/slot_load.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/server/support/local_cluster.h"

namespace dslide::slot_load_test {
namespace {

constexpr uint32_t kFeatures = 40, kLabels = 30, kSamples = 12;

template <typename T>
double Sum(const ExecutorLoad& load, T SlotCost::*field) {
  double sum = 0;
  for (const SlotCost& cost : load.slots) sum += static_cast<double>(cost.*field);
  return sum;
}

// All executors' loads, one after the other.
ExecutorLoad TakeLoad(LocalCluster* cluster) {
  ExecutorLoad all;
  for (Executor* executor : cluster->executors()) {
    const ExecutorLoad load = executor->TakeLoad();
    all.slots.insert(all.slots.end(), load.slots.begin(), load.slots.end());
    all.batches = load.batches;
  }
  return all;
}

Config RunConfig() {
  Config config = SmallConfig(kFeatures, kLabels, 6);
  config.train.batch = kSamples;
  return config;
}

ClusterConfig FourSlots(int32_t input_slots = 0) {
  ClusterConfig cluster;
  cluster.slots = 4;
  cluster.input_slots = input_slots;
  return cluster;
}

TEST_CASE("the upkeep of hash tables is that of the slots with neurons") {
  SlotLoad load(FourSlots(1));
  load.CountTaken(20);
  const ExecutorLoad report = load.Take(std::vector<SlotId>{{0}, {2}, {3}});
  const double upkeep = 20 * WorkCosts::kBuildStep;
  CHECK(report.slots[0].work == doctest::Approx(upkeep / 2));
  CHECK(report.slots[1].work == doctest::Approx(upkeep / 2));
  CHECK(report.slots[2].work == 0);
}

TEST_CASE("a load report by hand") {
  SlotLoad load(FourSlots());
  load.Of({1}).columns = 10;
  load.Of({1}).scores = 100;
  load.Of({1}).updated = 12;
  load.Of({3}).input_rows = 5;
  load.Of({3}).retrieved = 64;
  load.CountTaken(20);
  load.CountTaken(30);
  { const SlotLoad::Busy busy(&load); }
  const std::vector<SlotId> slots = {{1}, {3}};
  const ExecutorLoad report = load.Take(slots);
  CHECK(report.batches == 2);
  REQUIRE(report.slots.size() == 2);
  const SlotCost& first = report.slots[0];
  const SlotCost& second = report.slots[1];
  CHECK(first.slot == SlotId{1});
  CHECK(second.slot == SlotId{3});
  CHECK(first.retrieved == 0);
  CHECK(second.retrieved == 64);
  CHECK(first.used == 10);
  CHECK(second.used == 5);
  CHECK(first.updated == 12);
  CHECK(second.updated == 0);
  const double upkeep = 50 * WorkCosts::kBuildStep / 2;
  CHECK(first.work == doctest::Approx(100 + 10 * WorkCosts::kColumn + upkeep));
  CHECK(second.work ==
        doctest::Approx(5 * WorkCosts::kInputRow + 64 * WorkCosts::kRetrieved + upkeep));
  CHECK(report.busy_seconds > 0);
  CHECK(Sum(report, &SlotCost::service_us) == doctest::Approx(1e6 * report.busy_seconds));
  CHECK(first.service_us * second.work == doctest::Approx(second.service_us * first.work));
  // What was reported is not reported again.
  const ExecutorLoad next = load.Take(slots);
  CHECK(Sum(next, &SlotCost::work) == 0);
  CHECK(Sum(next, &SlotCost::used) == 0);
  CHECK(next.batches == 0);
  CHECK(next.busy_seconds == 0);
}

TEST_CASE("time without work is all slots' alike, that of slots that left is nobody's") {
  SlotLoad load(FourSlots());
  { const SlotLoad::Busy busy(&load); }
  const std::vector<SlotId> slots = {{1}, {3}};
  const ExecutorLoad idle = load.Take(slots);
  CHECK(idle.slots[0].service_us > 0);
  CHECK(idle.slots[0].service_us == idle.slots[1].service_us);
  load.Of({0}).scores = 300;
  load.Of({1}).scores = 100;
  { const SlotLoad::Busy busy(&load); }
  const ExecutorLoad left = load.Take(slots);
  CHECK(left.slots[0].service_us == doctest::Approx(0.25e6 * left.busy_seconds));
  CHECK(left.slots[1].service_us == 0);
  CHECK(load.Take({}).slots.empty());
}

TEST_CASE("samples take turns across reports") {
  SlotLoad load(FourSlots());
  uint64_t counted = 0;
  for (uint64_t sample = 0; sample < 10 * SlotLoad::kSampleEvery; ++sample) {
    counted += load.TakeTurn();
    if (sample % 7 == 0) (void)load.Take({});
  }
  CHECK(counted == 10);
}

TEST_CASE("executors count the rows of their slots, once however often a batch comes") {
  const Config config = RunConfig();
  LocalCluster cluster(config, 1000, {2, 1});
  Random random(4);
  std::map<uint32_t, uint32_t> used;  // by slot
  std::vector<LeaseBatch> batches;
  for (uint32_t b = 0; b < 3; ++b) {
    batches.push_back(RandomBatch(config, kSamples, 2, &random));
    std::set<uint32_t> features(batches[b].features.ids.begin(), batches[b].features.ids.end());
    features.insert(kFeatures);  // the hidden bias, which workers add
    for (const uint32_t id : features) ++used[id % config.cluster.slots];
    for (uint32_t id = 0; id < kLabels; ++id) ++used[id % config.cluster.slots];
    (void)cluster.Train(batches[b], b);
  }
  const ExecutorLoad load = TakeLoad(&cluster);
  CHECK(load.batches == 3);
  REQUIRE(load.slots.size() == config.cluster.slots);
  for (const SlotCost& cost : load.slots) {
    CAPTURE(cost.slot.value);
    CHECK(cost.used == used[cost.slot.value]);
    CHECK(cost.updated == used[cost.slot.value]);
    CHECK(cost.work > 0);
    CHECK(cost.service_us > 0);
  }
  // A batch that comes again is computed, and applied nowhere.
  (void)cluster.Train(batches[0], 0);
  const ExecutorLoad again = TakeLoad(&cluster);
  CHECK(Sum(again, &SlotCost::used) > 0);
  CHECK(Sum(again, &SlotCost::updated) == 0);
}

TEST_CASE("bucket entries are counted for one sample in so many") {
  Config config = RunConfig();
  config.model.active = ActiveSet::kLsh;
  config.model.candidates = 4;
  config.model.negatives = 4;
  config.hash.tables = 6;
  config.hash.k = 1;
  config.hash.bin = 4;
  ResolveConfig(kFeatures, kLabels, &config);
  LocalCluster cluster(config, 100'000, {1});
  const Executor& executor = *cluster.executors()[0];
  Random random(4);
  uint64_t entries = 0;
  for (uint32_t b = 0; b < 200; ++b) {
    (void)cluster.Train(RandomBatch(config, kSamples, 2, &random), b);
    for (uint32_t i = 0; i < kSamples; ++i) {
      const_cast<Executor&>(executor).output().ForEachRetrieved(i, [&](uint32_t) { ++entries; });
    }
  }
  const double retrieved = Sum(TakeLoad(&cluster), &SlotCost::retrieved);
  CHECK(entries > 0);
  CHECK(retrieved > 0.7 * static_cast<double>(entries));
  CHECK(retrieved < 1.3 * static_cast<double>(entries));
}

TEST_CASE("the bytes of slots are those of their executor") {
  Config config = RunConfig();
  config.model.active = ActiveSet::kLsh;
  ResolveConfig(kFeatures, kLabels, &config);
  Executor executor(config, 1000, AllSlots(config), Purpose::kTraining, BestKernels());
  const ExecutorLoad load = executor.TakeLoad();
  CHECK(load.slots.size() == config.cluster.slots);
  const uint64_t all = executor.MemoryBytes();
  // All but the tables' offsets.
  const HashTables& tables = executor.output().index()->tables().tables();
  const uint64_t empty =
      HashTables(tables.size(), executor.output().index()->tables().functions().bits(), 0)
          .MemoryBytes();
  CHECK(Sum(load, &SlotCost::bytes) == static_cast<double>(all - empty));
}

TEST_CASE("executors without slots take part and cost nothing") {
  Config config = RunConfig();
  for (const bool hashed : {false, true}) {
    CAPTURE(hashed);
    if (hashed) {
      config.model.active = ActiveSet::kLsh;
      ResolveConfig(kFeatures, kLabels, &config);
    }
    LocalCluster one(config, 1000, {1}), many(config, 1000, {11});  // three of these have no slot
    Random random(4);
    for (uint32_t b = 0; b < 30; ++b) {
      const LeaseBatch batch = RandomBatch(config, kSamples, 2, &random);
      const BatchDone done = one.Train(batch, b);
      const BatchDone shared = many.Train(batch, b);
      CHECK(shared.loss_sum > 0);
      if (!hashed) CHECK(shared.loss_sum == doctest::Approx(done.loss_sum));
    }
    uint32_t empty = 0;
    for (Executor* executor : many.executors()) {
      const ExecutorLoad load = executor->TakeLoad();
      CHECK(load.batches == 30);
      empty += load.slots.empty();
      if (!load.slots.empty()) continue;
      CHECK(Sum(load, &SlotCost::work) == 0);
      CHECK(executor->output().layer().map().rows() == 0);
      if (hashed) CHECK(executor->MeasureTables()->buckets.largest == 0);
    }
    CHECK(empty == 3);
  }
}

}  // namespace
}  // namespace dslide::slot_load_test
