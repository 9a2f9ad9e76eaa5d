#include "tools/dslide/model/grown_checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "common/checkpoint/layout.h"
#include "common/math/kernels.h"
#include "server/model/centroids.h"
#include "server/storage/checkpoint.h"
#include "server/storage/checkpoint_verify.h"
#include "tests/server/support/local_cluster.h"
#include "tests/server/support/saving.h"
#include "tests/server/support/test_batches.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::grown_checkpoint_test {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kOldFeatures = 60, kOldLabels = 40, kHidden = 16;
constexpr uint32_t kFeatures = 75, kLabels = 47;
constexpr uint32_t kBatches = 5;

const Stopped kNever = [] { return false; };

Config OldConfig() { return SmallConfig(kOldFeatures, kOldLabels, kHidden); }

Config Grown(Config config) {
  config.model.features = kFeatures;
  config.model.labels = kLabels;
  return config;
}

using Bytes = std::vector<uint8_t>;

struct Rows {
  std::map<uint32_t, Bytes> input, output;  // by id
};

std::map<uint32_t, Bytes> RowsOf(const std::vector<Executor*>& executors, LayerKind kind) {
  std::map<uint32_t, Bytes> rows;
  for (Executor* executor : executors) {
    Layer& layer =
        kind == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
    for (uint32_t row = 0; row < layer.map().rows(); ++row) {
      const uint32_t id = layer.map().Global(row);
      if (id == SlotMap::kNone) continue;
      rows[id].resize(layer.RowBytes());
      layer.StoreRow(row, rows[id].data());
    }
  }
  return rows;
}

Rows RowsOf(const std::vector<Executor*>& executors) {
  return {RowsOf(executors, LayerKind::kInput), RowsOf(executors, LayerKind::kOutput)};
}

RowScalars ScalarsOf(const Bytes& row) {
  RowScalars scalars;
  std::memcpy(&scalars, row.data(), sizeof(scalars));
  return scalars;
}

// REQUIRES fp32.
std::vector<double> WeightsOf(const Bytes& row) {
  std::vector<float> weights(kHidden);
  std::memcpy(weights.data(), row.data() + sizeof(RowScalars), kHidden * sizeof(float));
  return {weights.begin(), weights.end()};
}

double Length(const std::vector<double>& x) {
  double square = 0;
  for (const double v : x) square += v * v;
  return std::sqrt(square);
}

// A model that two servers have trained, its checkpoint, and one that has grown from it. The first
// `silent` labels were forgotten.
struct Growth {
  explicit Growth(const Config& old_config, uint32_t silent = 0)
      : config(old_config), cluster(config, 1000, {1, 2}) {
    Random random(5);
    for (uint64_t step = 0; step < kBatches; ++step) {
      cluster.Train(RandomBatch(config, 20, 3, &random), step);
    }
    for (Executor* executor : cluster.executors()) {
      Layer& layer = executor->output().layer();
      for (uint32_t label = 0; label < silent; ++label) {
        const uint32_t row = layer.map().Local(label);
        if (row != SlotMap::kNone) layer.Silence(row);
      }
    }
    Manifest manifest;
    manifest.name = CheckpointName(kBatches);
    manifest.config = FormatConfig(config);
    manifest.batches = kBatches;
    for (uint32_t s = 0; s < 2; ++s) {
      std::vector<Executor*> executors;
      for (const auto& executor : cluster.server(s)) executors.push_back(executor.get());
      CheckpointStore store({"server-000000000000000" + std::to_string(s)}, {});
      const CheckpointDone done =
          SaveOnce(&store, executors, {1, manifest.name, OldPath(), ShardName(3, s), {}, {}});
      REQUIRE(done.error == "");
      manifest.shards.push_back(ShardOf(done, "server"));
    }
    REQUIRE(WriteManifest(OldPath(), manifest).ok());
  }

  std::string OldPath() const { return directory.path() + "/" + CheckpointName(kBatches); }
  std::string NewPath() const { return directory.path() + "/new/" + CheckpointName(0); }

  // Samples with old and new features and labels; the last new label has none.
  Dataset Samples(size_t count) const {
    Random random(9);
    Dataset data(kFeatures, kLabels);
    for (size_t i = 0; i < count; ++i) {
      const std::vector<uint32_t> labels = {
          static_cast<uint32_t>(random.Below(kOldLabels)),
          static_cast<uint32_t>(kOldLabels + random.Below(kLabels - kOldLabels - 1))};
      const std::vector<uint32_t> features = {
          static_cast<uint32_t>(random.Below(20)), static_cast<uint32_t>(20 + random.Below(20)),
          static_cast<uint32_t>(40 + random.Below(20)),
          static_cast<uint32_t>(kOldFeatures + random.Below(kFeatures - kOldFeatures))};
      const std::vector<float> values = {1.0f, 0.5f, static_cast<float>(random.Uniform()), 9.0f};
      data.Add({labels, features, values});
    }
    return data;
  }

  void Grow(const Dataset& data, const Config& grown) {
    const auto from = Ok(FindEarlierModel(directory.path()));
    const auto model = Ok(Inference::Load(OldPath()));
    const auto labels = Ok(MeetNewLabels(model.get(), data, {}, kLabels, kNever));
    fs::create_directories(directory.path() + "/new");
    const auto shard = Ok(WriteGrownShard(from, grown, labels, NewPath(), kNever));
    Manifest manifest;
    manifest.name = CheckpointName(0);
    manifest.config = FormatConfig(grown);
    manifest.shards = {shard};
    REQUIRE(WriteManifest(NewPath(), manifest).ok());
    CHECK(std::distance(fs::directory_iterator(directory.path() + "/new"), {}) == 1);
    const CheckpointHealth health = VerifyCheckpoint(NewPath(), manifest);
    CHECK(health.damage.empty());
    CHECK(health.rows == kFeatures + 1 + kLabels);
  }

  // The grown model as servers load it. No batch has been applied.
  std::unique_ptr<LocalCluster> Restored(const Config& grown) {
    auto restored = std::make_unique<LocalCluster>(grown, 1000, std::vector<uint32_t>{3}, false);
    const auto shards = Ok(CheckpointShards::Open(NewPath()));
    for (Executor* executor : restored->executors()) {
      REQUIRE(shards->Restore(executor).ok());
      for (const auto& group : executor->applied().groups()) {
        CHECK(group.batches == AppliedBatches(group.slots).groups()[0].batches);
      }
    }
    return restored;
  }

  // The sum of unit activations over the first 100 samples of a label, from the formulas of
  // server/README.md in doubles, and how many they are.
  std::pair<std::vector<double>, uint32_t> UnitSum(const Dataset& data, uint32_t label) {
    std::pair<std::vector<double>, uint32_t> sum(std::vector<double>(kHidden), 0);
    const auto add = [&](std::vector<double>* h, uint32_t feature, double value) {
      const RowView row = cluster.Row(LayerKind::kInput, feature);
      for (uint32_t j = 0; j < kHidden; ++j) (*h)[j] += value * double{row.weights[j]};
    };
    for (size_t i = 0; i < data.size() && sum.second < 100; ++i) {
      if (std::ranges::find(data[i].labels, label) == data[i].labels.end()) continue;
      std::vector<double> h(kHidden);
      add(&h, kOldFeatures, 1);  // the bias
      for (size_t f = 0; f < data[i].features.size(); ++f) {
        if (data[i].features[f] < kOldFeatures) {
          add(&h, data[i].features[f], double{data[i].values[f]});
        }
      }
      for (double& x : h) x = std::max(x, 0.0);
      const double norm = Length(h);
      REQUIRE(norm > 0);
      for (uint32_t j = 0; j < kHidden; ++j) sum.first[j] += h[j] / norm;
      ++sum.second;
    }
    return sum;
  }

  Config config;
  TempDirectory directory;
  LocalCluster cluster;
};

// Old rows byte for byte, and new ones that nothing is known of as in a fresh run.
void CheckKept(const Rows& old_rows, const Rows& rows, const Config& grown) {
  REQUIRE(rows.input.size() == kFeatures + 1);
  REQUIRE(rows.output.size() == kLabels);
  const Rows fresh = RowsOf(LocalCluster(grown, 1000, {1}).executors());
  for (uint32_t f = 0; f < kFeatures; ++f) {
    CHECK(rows.input.at(f) == (f < kOldFeatures ? old_rows.input : fresh.input).at(f));
  }
  CHECK(rows.input.at(kFeatures) == old_rows.input.at(kOldFeatures));  // the hidden bias
  CHECK(rows.output.at(kLabels - 1) == fresh.output.at(kLabels - 1));  // without samples
}

std::vector<double> UnitOf(std::vector<double> x) {
  const double length = Length(x);
  for (double& v : x) v /= length;
  return x;
}

TEST_CASE("old rows stay with their moments, and new labels begin at the mean of their samples") {
  Config config = OldConfig();
  config.train.optimizer = OptimizerKind::kAdam;
  config.train.learning_rate = 0.01f;
  uint32_t samples = 300;  // 50 of a new label
  SUBCASE("few") {}
  SUBCASE("more than count") { samples = 1200; }
  SUBCASE("input rows in slots of their own") { config.cluster.input_slots = 3; }
  Growth growth(config);
  const Config grown = Grown(config);
  const Dataset data = growth.Samples(samples);
  growth.Grow(data, grown);
  const Rows old_rows = RowsOf(growth.cluster.executors());
  const Rows rows = RowsOf(growth.Restored(grown)->executors());
  CheckKept(old_rows, rows, grown);
  double length = 0, bias = 0;
  for (uint32_t n = 0; n < kOldLabels; ++n) {
    CHECK(rows.output.at(n) == old_rows.output.at(n));
    length += Length(WeightsOf(old_rows.output.at(n))) / kOldLabels;
    bias += double{ScalarsOf(old_rows.output.at(n)).bias} / kOldLabels;
  }
  CHECK(bias != 0);
  const Rows fresh = RowsOf(LocalCluster(grown, 1000, {1}).executors());
  std::vector<double> common(kHidden);
  for (uint32_t n = kOldLabels; n < kLabels - 1; ++n) {
    const auto [sum, count] = growth.UnitSum(data, n);
    for (uint32_t j = 0; j < kHidden; ++j) common[j] += sum[j] / count / (kLabels - 1 - kOldLabels);
  }
  for (uint32_t n = kOldLabels; n < kLabels - 1; ++n) {
    CAPTURE(n);
    const auto [sum, count] = growth.UnitSum(data, n);
    CHECK((samples == 1200 ? count == 100 : count < 100));
    std::vector<double> direction(kHidden);
    for (uint32_t j = 0; j < kHidden; ++j) direction[j] = sum[j] / count - common[j];
    direction = UnitOf(direction);
    const std::vector<double> other = UnitOf(WeightsOf(fresh.output.at(n)));
    for (uint32_t j = 0; j < kHidden; ++j) direction[j] += 0.3 * other[j];
    direction = UnitOf(direction);
    const std::vector<double> weights = WeightsOf(rows.output.at(n));
    for (uint32_t j = 0; j < kHidden; ++j) {
      CHECK(std::abs(weights[j] - length * direction[j]) < 1e-4 * length);
    }
    const RowScalars scalars = ScalarsOf(rows.output.at(n));
    CHECK(scalars.bias == doctest::Approx(bias));
    CHECK(scalars.steps == 0);
  }
}

TEST_CASE("labels that a stream has forgotten say nothing of new ones") {
  uint32_t silent = 30;
  SUBCASE("some") {}
  SUBCASE("all") { silent = kOldLabels; }
  Growth growth(OldConfig(), silent);
  const Config grown = Grown(growth.config);
  growth.Grow(growth.Samples(300), grown);
  const Rows rows = RowsOf(growth.Restored(grown)->executors());
  const Rows fresh = RowsOf(LocalCluster(grown, 1000, {1}).executors());
  // Where none is left, new labels are as long as those of a fresh run.
  const bool any = silent < kOldLabels;
  const uint32_t begin = any ? silent : kOldLabels, end = any ? kOldLabels : kLabels;
  double length = 0, bias = 0;
  for (uint32_t n = begin; n < end; ++n) {
    length += Length(WeightsOf((any ? rows : fresh).output.at(n))) / (end - begin);
    if (any) bias += double{ScalarsOf(rows.output.at(n)).bias} / (end - begin);
  }
  CHECK(length > 0);
  for (uint32_t n = kOldLabels; n < kLabels - 1; ++n) {
    CHECK(Length(WeightsOf(rows.output.at(n))) == doctest::Approx(length));
    CHECK(ScalarsOf(rows.output.at(n)).bias == doctest::Approx(bias));
  }
}

TEST_CASE("a new centroid is that of its samples, and the next pass begins new sums") {
  Config config = OldConfig();
  config.model.neurons = Neurons::kCentroids;
  Growth growth(config);
  const Config grown = Grown(config);
  const Dataset data = growth.Samples(100);
  growth.Grow(data, grown);
  const Rows old_rows = RowsOf(growth.cluster.executors());
  const auto restored = growth.Restored(grown);
  const Rows rows = RowsOf(restored->executors());
  CheckKept(old_rows, rows, grown);
  for (uint32_t n = 0; n < kOldLabels; ++n) {
    CHECK(WeightsOf(rows.output.at(n)) == WeightsOf(old_rows.output.at(n)));
    CHECK(ScalarsOf(rows.output.at(n)).steps == ScalarsOf(old_rows.output.at(n)).steps);
    CHECK(ScalarsOf(rows.output.at(n)).moment1 == ScalarsOf(old_rows.output.at(n)).moment1);
    CHECK(ScalarsOf(rows.output.at(n)).moment2 == 0);
  }
  for (uint32_t n = kOldLabels; n < kLabels - 1; ++n) {
    const auto [sum, count] = growth.UnitSum(data, n);
    const RowScalars scalars = ScalarsOf(rows.output.at(n));
    CHECK(scalars.steps == count);
    CHECK(scalars.moment1 == doctest::Approx(Length(sum)));
    CHECK(scalars.moment2 == 0);
    const std::vector<double> weights = WeightsOf(rows.output.at(n));
    for (uint32_t j = 0; j < kHidden; ++j) {
      CHECK(weights[j] ==
            doctest::Approx(double{kCentroidLength} * sum[j] / Length(sum)).epsilon(1e-4));
    }
  }
}

TEST_CASE("hash tables are those of the grown model's weights") {
  Config config = InBf16(OldConfig());
  config.model.active = ActiveSet::kLsh;
  config.hash.k = 1;
  config.hash.tables = 4;
  Growth growth(config);
  const Config grown = Grown(config);
  growth.Grow(growth.Samples(300), grown);
  const auto restored = growth.Restored(grown);
  CheckKept(RowsOf(growth.cluster.executors()), RowsOf(restored->executors()), grown);
  for (Executor* executor : restored->executors()) {
    const LiveTables& tables = executor->output().index()->tables();
    const auto codes_of = [&](uint32_t row) {
      std::vector<BucketCode> codes(tables.tables().size());
      for (uint32_t t = 0; t < codes.size(); ++t) codes[t] = tables.tables().Code(t, row);
      return codes;
    };
    std::map<uint32_t, std::vector<BucketCode>> stored;
    const Layer& layer = executor->output().layer();
    for (uint32_t row = 0; row < layer.map().rows(); ++row) {
      if (layer.map().Global(row) == SlotMap::kNone) continue;
      CHECK_FALSE(tables.IsChanged(row));
      stored[row] = codes_of(row);
    }
    executor->output().index()->tables().TouchAll();
    executor->output().index()->tables().CatchUp();
    for (const auto& [row, codes] : stored) CHECK(codes_of(row) == codes);
  }
  const auto model = Ok(Inference::Load(growth.NewPath()));
  SparseRows sample;
  sample.ids = {1, 25, kOldFeatures + 3};
  sample.values = {1, 1, 1};
  sample.EndRow();
  CHECK(model->Rank(sample, 5, Search::kLsh, false).ok());
}

TEST_CASE("a stop leaves no shard, no checkpoint and no store") {
  Growth growth(OldConfig());
  const auto from = Ok(FindEarlierModel(growth.directory.path()));
  fs::create_directories(growth.directory.path() + "/new");
  const auto shard =
      WriteGrownShard(from, Grown(growth.config), {}, growth.NewPath(), [] { return true; });
  REQUIRE_FALSE(shard.ok());
  CHECK(shard.error().message == "stopped before training began");
  CHECK(fs::is_empty(growth.directory.path() + "/new"));
}

TEST_CASE("a damaged earlier model is named") {
  Growth growth(OldConfig());
  for (const auto& entry : fs::recursive_directory_iterator(growth.OldPath())) {
    if (entry.path().extension() == ".sst") fs::resize_file(entry.path(), 10);
  }
  const auto from = Ok(FindEarlierModel(growth.directory.path()));
  CHECK(MessageOf(WriteGrownShard(from, Grown(growth.config), {}, growth.NewPath(), kNever))
            .starts_with(growth.OldPath()));
  CHECK_FALSE(fs::exists(growth.NewPath()));
}

}  // namespace
}  // namespace dslide::grown_checkpoint_test
