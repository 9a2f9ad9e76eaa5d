// Synchronous training: the same weights, whoever owns which slot.
#include <map>
#include <utility>

#include "common/run/step.h"
#include "tests/server/support/slot_move.h"

namespace dslide::synchronous_owners_test {
namespace {

constexpr uint32_t kFeatures = 120, kLabels = 2500, kHidden = 16, kBatch = 8;
constexpr uint64_t kSamples = 40;  // 5 batches an epoch; steps of 2, 2 and 1
constexpr uint64_t kSteps = 9;

Config OwnersConfig(ActiveSet active) {
  Config config = SmallConfig(kFeatures, kLabels, kHidden);
  config.train.batch = kBatch;
  config.train.target_batch = 2 * kBatch;
  config.train.staleness = 0;
  config.train.epochs = 3;
  config.train.optimizer = OptimizerKind::kAdam;
  config.train.learning_rate = 0.02f;
  config.model.active = active;
  config.model.negatives = 300;
  config.cluster.slots = 7;  // of 357 or 358 neurons: more than the scorer takes at once
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

// Every row as it would be stored, by layer and id: weights, moments, scalars, mass.
using StoredModel = std::map<std::pair<LayerKind, uint32_t>, std::vector<uint8_t>>;

StoredModel Stored(LocalCluster* cluster) {
  StoredModel model;
  for (Executor* executor : cluster->executors()) {
    for (Layer* layer : {&executor->input().layer(), &executor->output().layer()}) {
      for (uint32_t row = 0; row < layer->map().rows(); ++row) {
        const uint32_t id = layer->map().Global(row);
        if (id == SlotMap::kNone) continue;
        std::vector<uint8_t> bytes(layer->RowBytes());
        layer->StoreRow(row, bytes.data());
        REQUIRE(model.emplace(std::pair(layer->kind(), id), std::move(bytes)).second);
      }
    }
  }
  REQUIRE(model.size() == InputRowCount(cluster->config().model) + kLabels);
  return model;
}

void TrainSteps(LocalCluster* cluster, uint64_t begin, uint64_t end) {
  const Config& config = cluster->config();
  for (uint64_t step = begin; step < end; ++step) {
    const StepExtent extent = ExtentOfStep(step, config.train, kSamples);
    for (uint64_t n = extent.first_batch; n < extent.first_batch + extent.batches; ++n) {
      Random random(500 + n);
      (void)cluster->Train(RandomBatch(config, kBatch, 3, &random), n);
    }
    cluster->Commit(step + 1);
  }
}

// `executors[s]` executors in server s.
StoredModel ModelOf(const Config& config, const std::vector<uint32_t>& executors) {
  LocalCluster cluster(config, kSamples, executors);
  cluster.Commit(0);
  TrainSteps(&cluster, 0, kSteps);
  return Stored(&cluster);
}

void CheckOwnersDoNotMatter(const Config& config) {
  const StoredModel expected = ModelOf(config, {1});
  {
    LocalCluster untrained(config, kSamples, {1});
    CHECK(Stored(&untrained) != expected);
  }
  for (const std::vector<uint32_t>& executors :
       std::vector<std::vector<uint32_t>>{{3}, {1, 1}, {2, 3}, {1, 1, 1, 1, 1}, {1, 2, 1, 1, 1}}) {
    CAPTURE(executors.size());
    CAPTURE(executors[0]);
    CHECK(ModelOf(config, executors) == expected);
  }
}

TEST_CASE("synchronous: the number of servers and executors does not matter, with draws by mass") {
  Config config = OwnersConfig(ActiveSet::kMass);
  CheckOwnersDoNotMatter(config);
  config.train.sparsify = 0.03f;
  CheckOwnersDoNotMatter(config);
  CheckOwnersDoNotMatter(InBf16(config));
  config.train.optimizer = OptimizerKind::kAdaGrad;
  config.train.learning_rate = 0.2f;
  config.train.label_smoothing = 0.1f;
  config.train.dropout_hidden = 0.2f;
  config.train.weight_decay = 0.05f;
  CheckOwnersDoNotMatter(InBf16(config));
  config.cluster.input_slots = 2;  // some servers have rows of one layer only
  CheckOwnersDoNotMatter(InBf16(config));
}

TEST_CASE("synchronous: the number of servers and executors does not matter, with all neurons") {
  Config config = OwnersConfig(ActiveSet::kAll);
  CheckOwnersDoNotMatter(config);
  CheckOwnersDoNotMatter(InBf16(config));
  config.model.loss = Loss::kSigmoid;
  CheckOwnersDoNotMatter(InBf16(config));
  config.train.sparsify = 0.03f;
  CheckOwnersDoNotMatter(config);
}

// The three epochs form, learn and form.
Config CentroidConfig(ActiveSet active) {
  Config config = OwnersConfig(active);
  config.model.neurons = Neurons::kCentroids;
  config.train.optimizer = OptimizerKind::kAdaGrad;
  return config;
}

TEST_CASE("synchronous: the number of servers and executors does not matter, with centroids") {
  for (const ActiveSet active : {ActiveSet::kMass, ActiveSet::kAll}) {
    Config config = CentroidConfig(active);
    CheckOwnersDoNotMatter(config);
    config.train.sparsify = 0.03f;
    CheckOwnersDoNotMatter(InBf16(config));
  }
}

Config DenseConfig(ActiveSet active) {
  Config config = OwnersConfig(active);
  config.model.dense = {24, 16};
  config.train.dropout_hidden = 0.2f;
  return config;
}

TEST_CASE("synchronous: the number of servers and executors does not matter, with dense layers") {
  for (const ActiveSet active : {ActiveSet::kMass, ActiveSet::kAll}) {
    CheckOwnersDoNotMatter(DenseConfig(active));
    Config config = InBf16(DenseConfig(active));
    config.train.optimizer = OptimizerKind::kAdaGrad;
    config.train.learning_rate = 0.1f;
    config.cluster.input_slots = 2;
    CheckOwnersDoNotMatter(config);
  }
}

TEST_CASE("synchronous: slots that move between steps do not matter") {
  for (const Config& config :
       {InBf16(OwnersConfig(ActiveSet::kMass)), InBf16(OwnersConfig(ActiveSet::kAll)),
        InBf16(DenseConfig(ActiveSet::kMass)), InBf16(CentroidConfig(ActiveSet::kMass))}) {
    const StoredModel expected = ModelOf(config, {1});
    LocalCluster cluster(config, kSamples, {2, 1});
    cluster.Commit(0);
    TrainSteps(&cluster, 0, 2);
    const auto move = [&](uint32_t from, uint32_t to, SlotId slot) {
      std::vector<Executor*> executors;
      for (const auto& executor : cluster.server(0)) executors.push_back(executor.get());
      SlotMove(executors, from, to, slot).Finish();
    };
    const SlotId slot = cluster.server(0)[0]->output().layer().map().owned()[0];
    move(0, 1, slot);
    TrainSteps(&cluster, 2, 4);
    move(1, 0, cluster.server(0)[1]->output().layer().map().owned()[0]);
    TrainSteps(&cluster, 4, kSteps);
    CHECK(Stored(&cluster) == expected);
  }
}

}  // namespace
}  // namespace dslide::synchronous_owners_test
