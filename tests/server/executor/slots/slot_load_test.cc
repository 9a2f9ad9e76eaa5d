// What slots cost: the counts against what was done, and the report made of them.
#include "server/executor/slots/slot_load.h"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <set>

#include "tests/server/support/local_cluster.h"

namespace dslide {
namespace {

constexpr uint32_t kFeatures = 40, kLabels = 30, kSamples = 12;

template <typename T>
double Sum(const std::vector<T>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// All executors' reports, one after the other.
LoadReport TakeLoad(LocalCluster* cluster) {
  LoadReport all;
  for (Executor* executor : cluster->executors()) {
    const LoadReport load = executor->TakeLoad();
    const auto append = [](auto* to, const auto& from) {
      to->insert(to->end(), from.begin(), from.end());
    };
    append(&all.slots, load.slots);
    append(&all.retrieved, load.retrieved);
    append(&all.used, load.used);
    append(&all.updated, load.updated);
    append(&all.work, load.work);
    append(&all.service_us, load.service_us);
    append(&all.busy, load.busy);
    all.batches = load.batches;
  }
  return all;
}

Config RunConfig() {
  Config config = SmallConfig(kFeatures, kLabels, 6);
  config.train.batch = kSamples;
  return config;
}

TEST_CASE("a load report by hand") {
  SlotLoad load(4);
  load.Of({1}).columns = 10;
  load.Of({1}).scores = 100;
  load.Of({1}).updated = 12;
  load.Of({3}).input_rows = 5;
  load.Of({3}).retrieved = 64;
  load.CountTaken(20);
  load.CountTaken(30);
  { const SlotLoad::Busy busy(&load); }
  const std::vector<SlotId> slots = {{1}, {3}};
  const LoadReport report = load.Take(slots);
  CHECK(report.batches == 2);
  CHECK(report.slots == std::vector<uint32_t>{1, 3});
  CHECK(report.executor == std::vector<uint16_t>{0, 0});
  CHECK(report.retrieved == std::vector<uint32_t>{0, 64});
  CHECK(report.used == std::vector<uint32_t>{10, 5});
  CHECK(report.updated == std::vector<uint32_t>{12, 0});
  const double upkeep = 50 * WorkCosts::kBuildStep / 2;
  CHECK(report.work[0] == doctest::Approx(100 + 10 * WorkCosts::kColumn + upkeep));
  CHECK(report.work[1] ==
        doctest::Approx(5 * WorkCosts::kInputRow + 64 * WorkCosts::kRetrieved + upkeep));
  REQUIRE(report.busy.size() == 1);
  CHECK(report.busy[0] > 0);
  CHECK(Sum(report.service_us) == doctest::Approx(1e6 * double{report.busy[0]}));
  CHECK(report.service_us[0] * report.work[1] ==
        doctest::Approx(report.service_us[1] * report.work[0]));
  // What was reported is not reported again.
  const LoadReport next = load.Take(slots);
  CHECK(Sum(next.work) == 0);
  CHECK(Sum(next.used) == 0);
  CHECK(next.batches == 0);
  CHECK(next.busy[0] == 0);
}

TEST_CASE("time without work is all slots' alike, that of slots that left is nobody's") {
  SlotLoad load(4);
  { const SlotLoad::Busy busy(&load); }
  const std::vector<SlotId> slots = {{1}, {3}};
  const LoadReport idle = load.Take(slots);
  CHECK(idle.service_us[0] > 0);
  CHECK(idle.service_us[0] == idle.service_us[1]);
  load.Of({0}).scores = 300;
  load.Of({1}).scores = 100;
  { const SlotLoad::Busy busy(&load); }
  const LoadReport left = load.Take(slots);
  CHECK(left.service_us[0] == doctest::Approx(0.25e6 * double{left.busy[0]}));
  CHECK(left.service_us[1] == 0);
  CHECK(load.Take({}).slots.empty());
}

TEST_CASE("samples take turns across reports") {
  SlotLoad load(4);
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
  const LoadReport load = TakeLoad(&cluster);
  CHECK(load.batches == 3);
  REQUIRE(load.slots.size() == config.cluster.slots);
  for (size_t i = 0; i < load.slots.size(); ++i) {
    CAPTURE(load.slots[i]);
    CHECK(load.used[i] == used[load.slots[i]]);
    CHECK(load.updated[i] == used[load.slots[i]]);
    CHECK(load.work[i] > 0);
    CHECK(load.service_us[i] > 0);
  }
  // A batch that comes again is computed, and applied nowhere.
  (void)cluster.Train(batches[0], 0);
  const LoadReport again = TakeLoad(&cluster);
  CHECK(Sum(again.used) > 0);
  CHECK(Sum(again.updated) == 0);
}

TEST_CASE("bucket entries are counted for one sample in so many") {
  Config config = RunConfig();
  config.model.active = ActiveSet::kLsh;
  config.model.candidates = 4;
  config.model.uniform = 4;
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
  const double retrieved = Sum(TakeLoad(&cluster).retrieved);
  CHECK(entries > 0);
  CHECK(retrieved > 0.7 * static_cast<double>(entries));
  CHECK(retrieved < 1.3 * static_cast<double>(entries));
}

TEST_CASE("ranking is work of the slots that are ranked") {
  const Config config = RunConfig();
  LocalCluster cluster(config, 1000, {1});
  TopKRequest request;
  request.hidden = Matrix(3, 6);
  request.k = 2;
  (void)cluster.AskExecutors(0, Body(request));
  const LoadReport load = TakeLoad(&cluster);
  CHECK(Sum(load.work) == doctest::Approx(3 * kLabels * WorkCosts::kScanned));
}

TEST_CASE("the bytes of slots are those of their executor") {
  Config config = RunConfig();
  config.model.active = ActiveSet::kLsh;
  ResolveConfig(kFeatures, kLabels, &config);
  Executor executor(config, 1000, AllSlots(config), 0, Purpose::kTraining, BestKernels());
  const LoadReport load = executor.TakeLoad();
  CHECK(load.bytes.size() == config.cluster.slots);
  const uint64_t all = executor.MemoryBytes();
  CHECK(executor.Occupancy().memory_used_bytes == all);
  // All but the tables' offsets.
  const HashTables& tables = executor.output().tables()->tables();
  const uint64_t empty =
      HashTables(tables.size(), executor.output().tables()->functions().bits(), 0).MemoryBytes();
  CHECK(Sum(load.bytes) == static_cast<double>(all - empty));
}

TEST_CASE("executors without slots take part and cost nothing") {
  Config config = RunConfig();
  for (const bool hashed : {false, true}) {
    CAPTURE(hashed);
    if (hashed) {
      config.model.active = ActiveSet::kLsh;
      config.model.popular = 5;
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
      const LoadReport load = executor->TakeLoad();
      CHECK(load.batches == 30);
      empty += load.slots.empty();
      if (!load.slots.empty()) continue;
      CHECK(Sum(load.work) == 0);
      CHECK(executor->output().layer().map().rows() == 0);
      CHECK(executor->Occupancy().bucket_largest == 0);
    }
    CHECK(empty == 3);
  }
}

}  // namespace
}  // namespace dslide
