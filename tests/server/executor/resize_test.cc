// A model that grows while it is trained (train.open_vocabulary).
#include <algorithm>
#include <memory>
#include <vector>

#include "common/run/step.h"
#include "tests/server/support/local_cluster.h"
#include "tests/server/support/slot_move.h"

namespace dslide::resize_test {
namespace {

constexpr uint32_t kFeatures = 40, kLabels = 60, kHidden = 16, kBatch = 8;
constexpr uint64_t kSegment = 64;  // samples

Config StreamConfig(ActiveSet active, OptimizerKind optimizer = OptimizerKind::kAdam) {
  Config config = SmallConfig(kFeatures, kLabels, kHidden);
  config.train.open_vocabulary = true;
  config.train.segment_samples = kSegment;
  config.train.optimizer = optimizer;
  config.train.label_smoothing = 0.1f;  // spread over as many neurons as there are
  config.train.batch = kBatch;
  config.model.active = active;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

ModelShape ShapeOf(uint32_t epoch, uint32_t features, uint32_t labels) {
  ModelShape shape;
  shape.epoch = epoch;
  shape.features = features;
  shape.labels = labels;
  shape.samples = kSegment;
  return shape;
}

void Resize(LocalCluster* cluster, const ModelShape& shape) {
  SlotJob job{SlotJob::Kind::kSwitchPlan, {}};
  job.shape = std::make_shared<const ModelShape>(shape);
  REQUIRE(DoAll(cluster->executors(), job) == "");
}

std::vector<uint8_t> StoredRow(LocalCluster* cluster, LayerKind kind, uint32_t id) {
  for (Executor* executor : cluster->executors()) {
    Layer& layer =
        kind == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
    const uint32_t row = layer.map().Local(id);
    if (row == SlotMap::kNone) continue;
    std::vector<uint8_t> bytes(layer.RowBytes());
    layer.StoreRow(row, bytes.data());
    return bytes;
  }
  REQUIRE(false);
  return {};
}

// All rows with these ids, [begin, end).
std::vector<std::vector<uint8_t>> Rows(LocalCluster* cluster, LayerKind kind, uint32_t begin,
                                       uint32_t end) {
  std::vector<std::vector<uint8_t>> rows;
  for (uint32_t id = begin; id < end; ++id) rows.push_back(StoredRow(cluster, kind, id));
  return rows;
}

// Gives `to` the rows of `from`, one by one, as a checkpoint would.
void CopyRows(LocalCluster* from, LocalCluster* to, uint32_t features, uint32_t labels) {
  const auto copy = [&](LayerKind kind, uint32_t count) {
    for (uint32_t id = 0; id < count; ++id) {
      const std::vector<uint8_t> bytes = StoredRow(from, kind, id);
      for (Executor* executor : to->executors()) {
        Layer& layer =
            kind == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
        const uint32_t row = layer.map().Local(id);
        if (row != SlotMap::kNone) layer.LoadRow(row, bytes.data());
      }
    }
  };
  copy(LayerKind::kInput, features);
  copy(LayerKind::kOutput, labels);
  for (Executor* executor : to->executors()) executor->output().FollowLoad();
}

void Train(LocalCluster* cluster, const Config& sizes, uint64_t first, uint64_t last) {
  for (uint64_t number = first; number < last; ++number) {
    Random random(1000 + number);
    (void)cluster->Train(RandomBatch(sizes, kBatch, 3, &random), number);
  }
}

// New neurons are the mean of those of their slots that have learned.
void CheckTypical(LocalCluster* cluster, const Config& config, uint32_t labels) {
  const SlotRange slots = OutputSlots(config.cluster);
  for (uint32_t id = kLabels; id < labels; ++id) {
    std::vector<double> mean(kHidden);
    double bias = 0, count = 0;
    for (uint32_t other = 0; other < kLabels; ++other) {
      const RowView row = cluster->Row(LayerKind::kOutput, other);
      if (slots.SlotOf(other) != slots.SlotOf(id) || row.scalars->steps == 0) continue;
      for (uint32_t j = 0; j < kHidden; ++j) mean[j] += double{row.weights[j]};
      bias += double{row.scalars->bias};
      ++count;
    }
    REQUIRE(count > 0);
    const RowView row = cluster->Row(LayerKind::kOutput, id);
    for (uint32_t j = 0; j < kHidden; ++j) {
      CHECK(row.weights[j] == doctest::Approx(mean[j] / count).epsilon(1e-4));
    }
    CHECK(row.scalars->bias == doctest::Approx(bias / count).epsilon(1e-4));
    CHECK(row.scalars->steps == 0);
  }
}

TEST_CASE("resize: rows that have learned stay, and new ones begin as they should") {
  for (const OptimizerKind optimizer : {OptimizerKind::kAdam, OptimizerKind::kAdaGrad}) {
    for (const ActiveSet active : {ActiveSet::kAll, ActiveSet::kMass}) {
      const Config config = StreamConfig(active, optimizer);
      LocalCluster cluster(config, kSegment, {2, 1});
      Train(&cluster, config, 0, 8);
      const auto features = Rows(&cluster, LayerKind::kInput, 0, kFeatures);
      const auto labels = Rows(&cluster, LayerKind::kOutput, 0, kLabels);
      // Once within the rows that regions have to spare, and far beyond.
      uint32_t segment = 2;
      for (const auto& [more_features, more_labels] :
           {std::pair(kFeatures + 7, kLabels + 9), std::pair(kFeatures + 9, kLabels + 10),
            std::pair(3 * kFeatures, 5 * kLabels)}) {
        Resize(&cluster, ShapeOf(segment++, more_features, more_labels));
        CHECK(Rows(&cluster, LayerKind::kInput, 0, kFeatures) == features);
        CHECK(Rows(&cluster, LayerKind::kOutput, 0, kLabels) == labels);
        Config large = config;
        large.model.features = more_features;
        large.model.labels = more_labels;
        LocalCluster fresh(large, kSegment, {1});
        CHECK(Rows(&cluster, LayerKind::kInput, kFeatures, more_features) ==
              Rows(&fresh, LayerKind::kInput, kFeatures, more_features));
        CheckTypical(&cluster, config, more_labels);
      }
    }
  }
}

TEST_CASE("resize: a model that has grown trains as one that was as large and has the same rows") {
  for (const ActiveSet active : {ActiveSet::kAll, ActiveSet::kMass}) {
    const Config config = StreamConfig(active);
    Config large = config;
    large.model.features = 2 * kFeatures + 1;
    large.model.labels = 3 * kLabels + 1;
    LocalCluster grown(config, kSegment, {2});
    Train(&grown, config, 0, 8);
    Resize(&grown, ShapeOf(2, large.model.features, large.model.labels));
    LocalCluster loaded(large, kSegment, {2});
    CopyRows(&grown, &loaded, large.model.features, large.model.labels);
    Train(&grown, large, 8, 16);
    Train(&loaded, large, 8, 16);
    CHECK(Rows(&grown, LayerKind::kInput, 0, large.model.features) ==
          Rows(&loaded, LayerKind::kInput, 0, large.model.features));
    CHECK(Rows(&grown, LayerKind::kOutput, 0, large.model.labels) ==
          Rows(&loaded, LayerKind::kOutput, 0, large.model.labels));
  }
}

TEST_CASE("resize: a slot that is being copied grows, and its copy is over") {
  const Config config = StreamConfig(ActiveSet::kMass);
  LocalCluster cluster(config, kSegment, {2});
  Train(&cluster, config, 0, 8);
  SlotMove move(cluster.executors(), 0, 1,
                cluster.executors()[0]->output().layer().map().owned()[0]);
  move.CopyPart(true, 1u << 20);
  Resize(&cluster, ShapeOf(2, 64 * kFeatures, 64 * kLabels));
  CHECK(std::holds_alternative<ErrorReply>(move.Ask(1, true, 1u << 20)));
}

TEST_CASE("resize: a recycled id begins anew, and a removed label is in no ranking") {
  const Config config = StreamConfig(ActiveSet::kMass);
  LocalCluster cluster(config, kSegment, {2});
  LocalCluster fresh(config, kSegment, {1});
  Train(&cluster, config, 0, 8);
  ModelShape shape = ShapeOf(2, kFeatures, kLabels);
  shape.recycled_features = {3, 17};
  shape.recycled_labels = {5};
  shape.removed_labels = {5, 11, 12};  // 5 first goes, then has another name
  Resize(&cluster, shape);
  CHECK(StoredRow(&cluster, LayerKind::kInput, 17) == StoredRow(&fresh, LayerKind::kInput, 17));
  TopKRequest request;
  request.hidden = Matrix(1, kHidden);
  std::ranges::fill(request.hidden.data, 1.0f);
  request.k = kLabels;
  request.search = Search::kExact;
  const auto ranked = std::get<TopKReply>(cluster.Ask(0, request));
  CHECK(ranked.ids.size() == kLabels - 2);
  for (const uint32_t gone : {11u, 12u}) CHECK(std::ranges::count(ranked.ids, gone) == 0);
  Train(&cluster, config, 8, 16);  // whoever draws them gives them no share
  for (Executor* executor : cluster.executors()) {
    const uint32_t row = executor->output().layer().map().Local(11);
    if (row != SlotMap::kNone) CHECK(executor->output().layer().bias(row) < -1000);
  }
}

TEST_CASE("resize: the samples of the segment in progress decide which batches there are") {
  const Config config = StreamConfig(ActiveSet::kAll);
  TrainConfig train = config.train;
  train.epoch_samples = 21;
  CHECK(SamplesOf({1, 0, 0}, train, kSegment) == 8);
  CHECK(SamplesOf({1, 0, 2}, train, kSegment) == 5);
  CHECK(SamplesOf({1, 0, 3}, train, kSegment) == 0);
  CHECK(BatchNumber({1, 0, 0}, train, kSegment) == 8);  // as if all segments were full
  train.staleness = 0;
  train.target_batch = 16;
  CHECK(StepsPerEpoch(train, kSegment) == 4);
  CHECK(ExtentOfStep(4, train, kSegment).samples == 16);
  CHECK(ExtentOfStep(5, train, kSegment).batches == 1);
  CHECK(ExtentOfStep(5, train, kSegment).samples == 5);
  CHECK(ExtentOfStep(6, train, kSegment).batches == 0);
}

}  // namespace
}  // namespace dslide::resize_test
