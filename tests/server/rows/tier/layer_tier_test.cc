// A layer with few rows in memory does the same, bit for bit, as one that has them all.
#include <doctest/doctest.h>

#include <cstring>
#include <new>
#include <vector>

#include "server/rows/layer.h"
#include "tests/server/support/training_run.h"

namespace dslide::layer_tier_test {
namespace {

constexpr uint32_t kTotal = 3000, kSlots = 10, kDim = 24;
constexpr float kDeviation = 0.3f;

Config ConfigOf(OptimizerKind optimizer, bool bf16) {
  Config config;
  config.model.precision = bf16 ? Precision::kBf16 : Precision::kFp32;
  config.model.hidden = kDim;
  config.model.active = ActiveSet::kMass;
  config.train.optimizer = optimizer;
  config.train.moments = bf16 ? MomentPrecision::kBf16 : MomentPrecision::kFp32;
  return config;
}

SlotMap Map(uint32_t slots) {
  std::vector<SlotId> owned;
  for (uint32_t s = 0; s < slots; ++s) owned.push_back({s});
  return SlotMap(kTotal, kSlots, owned);
}

// A layer, and the same with 64 or more rows in memory.
struct Pair {
  Pair(const Config& config, uint32_t slots, uint32_t places)
      : whole(LayerKind::kOutput, config, Map(slots), Purpose::kTraining, BestKernels()),
        tiered(LayerKind::kOutput, config, Map(slots), Purpose::kTraining, BestKernels()) {
    TierFile::Options file;
    file.directory = "/tmp";
    file.extent_bytes = 4096;
    REQUIRE(tiered.LimitMemory(file, places).ok());
  }
  template <typename Do>
  void Both(const Do& work) {
    work(whole);
    work(tiered);
  }
  void CheckSame() {
    std::vector<uint8_t> a(whole.RowBytes()), b(whole.RowBytes());
    bool same = true;
    for (uint32_t row = 0; row < whole.map().rows(); ++row) {
      whole.StoreRow(row, a.data());
      tiered.StoreRow(row, b.data());
      same = same && a == b;
    }
    CHECK(same);
  }

  Layer whole;
  Layer tiered;
};

// One random operation on both; what they return is the same.
void Step(Pair* pair, Random* random) {
  const uint32_t bound = pair->whole.map().rows();
  std::vector<uint32_t> rows(1 + random->Below(150));
  for (uint32_t& row : rows) row = static_cast<uint32_t>(random->Below(1 + random->Below(bound)));
  std::vector<float> factors(std::max<size_t>(rows.size(), kDim));
  for (float& f : factors) f = static_cast<float>(random->Uniform()) - 0.5f;
  std::vector<float> a(rows.size() * kDim), b = a;
  const uint32_t row = rows[0];
  const auto kind = random->Below(8);
  if (random->Below(2) == 0) pair->tiered.Fetch(rows);
  switch (kind) {
    case 0:
      pair->whole.Gather(rows, a.data());
      pair->tiered.Gather(rows, b.data());
      break;
    case 1:
      pair->whole.WeightedSum(rows, factors.data(), a.data());
      pair->tiered.WeightedSum(rows, factors.data(), b.data());
      break;
    case 2:
      a[0] = pair->whole.Dot(row, factors.data());
      b[0] = pair->tiered.Dot(row, factors.data());
      break;
    case 3: {
      const uint32_t end = std::min(bound, row + 100);
      std::vector<float> s, t;
      const float* of_whole = pair->whole.Range(row, end, &s);
      a.assign(of_whole, of_whole + size_t{end - row} * kDim);
      const float* of_tiered = pair->tiered.Range(row, end, &t);
      b.assign(of_tiered, of_tiered + size_t{end - row} * kDim);
      break;
    }
    case 4:
      pair->Both([&](Layer& layer) { layer.AddToCentroid(row, factors.data(), 2, 1, 1.0f); });
      break;
    case 5: {
      std::vector<uint8_t> bytes(pair->whole.RowBytes());
      pair->tiered.StoreRow(row, bytes.data());
      pair->Both([&](Layer& layer) { layer.LoadRow(rows.back(), bytes.data()); });
      break;
    }
    default:
      for (size_t u = 0; u < rows.size(); ++u) {
        pair->tiered.FetchAhead(rows, u);
        pair->Both([&](Layer& layer) {
          layer.Update(rows[u], 0.1f, factors.data(), 0.2f, true);
          layer.ObserveMass(rows[u], 0.25f);
        });
      }
  }
  REQUIRE(a.size() == b.size());
  REQUIRE(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TEST_CASE("a layer with the disk tier: the same bits after any operations") {
  for (const auto optimizer : {OptimizerKind::kAdaGrad, OptimizerKind::kAdam}) {
    for (const bool bf16 : {false, true}) {
      Pair pair(ConfigOf(optimizer, bf16), 7, 64 + 100 * bf16);
      REQUIRE(pair.tiered.tier() != nullptr);
      CHECK(pair.tiered.MemoryBytes() < pair.whole.MemoryBytes() + (5u << 20));
      pair.Both([](Layer& layer) { layer.Initialise(5, kDeviation, kTotal - 50); });
      pair.CheckSame();
      Random random(bf16 ? 1 : 2);
      for (int step = 0; step < 600; ++step) Step(&pair, &random);
      pair.CheckSame();
    }
  }
}

TEST_CASE("a layer with the disk tier: slots come and go, and the tier begins when it must") {
  const Config config = ConfigOf(OptimizerKind::kAdam, false);
  Pair pair(config, 2, 1000);
  CHECK(pair.tiered.tier() == nullptr);
  pair.Both([](Layer& layer) { layer.Initialise(5, kDeviation, kTotal); });
  Random random(3);
  for (int step = 0; step < 100; ++step) Step(&pair, &random);
  const auto come = [&](uint32_t slot) {
    pair.Both([&](Layer& layer) {
      layer.Reserve({slot});
      std::vector<uint8_t> bytes(layer.RowBytes());
      for (uint32_t row = 0; row < layer.map().SlotSize({slot}); row += 2) {
        std::memset(bytes.data() + sizeof(RowScalars), static_cast<int>(row % 60), kDim);
        layer.LoadRow(layer.map().LocalRow({slot}, row), bytes.data());
      }
      layer.Attach({slot});
    });
    pair.CheckSame();
    for (int step = 0; step < 100; ++step) Step(&pair, &random);
    pair.CheckSame();
  };
  come(5);
  CHECK(pair.tiered.tier() == nullptr);
  come(6);
  CHECK(pair.tiered.tier() != nullptr);
  come(8);
  // Rows of a slot that has left stay readable; then the region goes to another slot.
  pair.Both([](Layer& layer) { layer.Detach({1}); });
  pair.CheckSame();
  pair.Both([](Layer& layer) { layer.Release({1}); });
  pair.CheckSame();
  come(9);
}

TEST_CASE("a layer with the disk tier: drawn rows of a slot that has left are as they were drawn") {
  Pair pair(ConfigOf(OptimizerKind::kAdaGrad, true), 10, 64);
  pair.Both([](Layer& layer) {
    layer.Initialise(7, kDeviation, kTotal);
    layer.Detach({4});
  });
  pair.CheckSame();
}

TEST_CASE("a layer that cannot have its file when slots come has no memory for them") {
  Layer layer(LayerKind::kOutput, ConfigOf(OptimizerKind::kSgd, false), Map(2), Purpose::kTraining,
              BestKernels());
  TierFile::Options file;
  file.directory = "/nonexistent";
  REQUIRE(layer.LimitMemory(file, 700).ok());
  CHECK_THROWS_AS(layer.Reserve({7}), std::bad_alloc);
  CHECK_FALSE(layer.map().HasRegion({7}));
  Layer full(LayerKind::kOutput, ConfigOf(OptimizerKind::kSgd, false), Map(4), Purpose::kTraining,
             BestKernels());
  CHECK_FALSE(full.LimitMemory(file, 700).ok());
}

TEST_CASE("training with the disk tier gives the same bits, with snapshots on the way") {
  for (RunKind kind : AllRunKinds()) {
    if (kind.tier) continue;
    CAPTURE(kind);
    LocalCluster whole(RunConfig(kind), kRunSamples, {2});
    kind.tier = true;
    Config on_disk = RunConfig(kind);
    on_disk.cluster.disk_tier = "/tmp";
    LocalCluster tiered(on_disk, kRunSamples, {2});
    REQUIRE(tiered.executors()[1]->has_rows_on_disk());
    TrainRun(&whole, 0, 20);
    MemoryStore store(2);
    store.Begin(tiered.executors()[0]);
    uint64_t stage = 0;
    TrainRun(&tiered, 0, 20, [&] {
      (void)tiered.executors()[0]->Background();
      const LeaseBatch next = RunBatch(tiered.config(), ++stage / 4);
      EmbedRequest embed;
      embed.features = next.features;
      for (Executor* executor : tiered.executors()) executor->ReadAhead(embed);
    });
    CHECK(tiered.executors()[0]->output().layer().tier()->figures().writes > 0);
    for (size_t e = 0; e < 2; ++e) {
      CHECK(StateOf(tiered.executors()[e]) == StateOf(whole.executors()[e]));
    }
  }
}

}  // namespace
}  // namespace dslide::layer_tier_test
