// What the weights of samples do in synchronous training, where results can be compared exactly.
#include <algorithm>
#include <cmath>

#include "tests/server/support/local_cluster.h"

namespace dslide::sample_weights_test {
namespace {

constexpr uint32_t kFeatures = 40, kLabels = 60, kHidden = 16, kBatch = 8;
constexpr uint64_t kSamples = 80;

Config SynchronousConfig() {
  Config config = SmallConfig(kFeatures, kLabels, kHidden);
  config.train.batch = kBatch;
  config.train.target_batch = kBatch;
  config.train.staleness = 0;
  config.train.epochs = 4;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

std::vector<float> Row(LocalCluster* cluster, LayerKind kind, uint32_t id) {
  const RowView row = cluster->Row(kind, id);
  std::vector<float> all(row.weights, row.weights + kHidden);
  all.push_back(row.scalars->bias);
  return all;
}

// The weights of all rows after one step on a batch.
std::vector<float> After(const Config& config, LeaseBatch batch, uint64_t step = 0) {
  LocalCluster cluster(config, kSamples, {1, 2});
  cluster.Commit(step);
  (void)cluster.Train(std::move(batch), step);
  cluster.Commit(step + 1);
  std::vector<float> all;
  const auto add = [&](LayerKind kind, uint32_t id) {
    const std::vector<float> row = Row(&cluster, kind, id);
    all.insert(all.end(), row.begin(), row.end());
  };
  for (uint32_t f = 0; f <= kFeatures; ++f) add(LayerKind::kInput, f);
  for (uint32_t n = 0; n < kLabels; ++n) add(LayerKind::kOutput, n);
  return all;
}

double Farthest(const std::vector<float>& a, const std::vector<float>& b) {
  double farthest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    farthest = std::max(farthest, std::abs(double{a[i]} - double{b[i]}));
  }
  return farthest;
}

// Samples `picked` of a batch, in this order.
LeaseBatch Picked(const LeaseBatch& from, const std::vector<uint32_t>& picked) {
  LeaseBatch batch;
  for (const uint32_t i : picked) {
    const auto append = [&](const SparseRows& rows, SparseRows* to) {
      to->ids.insert(to->ids.end(), rows.Ids(i).begin(), rows.Ids(i).end());
      if (!rows.values.empty()) {
        to->values.insert(to->values.end(), rows.Values(i).begin(), rows.Values(i).end());
      }
      to->EndRow();
    };
    append(from.features, &batch.features);
    append(from.labels, &batch.labels);
  }
  return batch;
}

LeaseBatch SomeBatch(const Config& config, uint64_t seed = 5) {
  Random random(seed);
  return RandomBatch(config, kBatch, 3, &random);
}

const std::vector<uint32_t> kOnce = {0, 1, 2, 3, 4, 5, 6, 7};
const std::vector<uint32_t> kFirstTwice = {0, 0, 2, 3, 4, 5, 6, 7};

TEST_CASE("a weight of 2 is the sample twice where centroids are formed") {
  Config config = SynchronousConfig();
  config.model.neurons = Neurons::kCentroids;
  config.model.active = ActiveSet::kMass;
  ResolveConfig(kFeatures, kLabels, &config);
  const LeaseBatch batch = SomeBatch(config);
  LeaseBatch weighted = Picked(batch, kOnce);
  weighted.weights = {2, 0, 1, 1, 1, 1, 1, 1};
  const std::vector<float> twice = After(config, Picked(batch, kFirstTwice));
  CHECK(Farthest(After(config, weighted), twice) < 1e-6);
  weighted.weights.clear();
  CHECK(Farthest(After(config, weighted), twice) > 1e-3);
}

TEST_CASE("what a sample of weight 0 holds does not matter, bit for bit") {
  for (const ActiveSet active : {ActiveSet::kAll, ActiveSet::kMass}) {
    for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
      Config config = SynchronousConfig();
      config.model.active = active;
      config.model.negatives = 30;
      config.train.optimizer = optimizer;
      config.train.sparsify = 1.0f / 8;
      const LeaseBatch batch = SomeBatch(config);
      LeaseBatch a = Picked(batch, kOnce), b = Picked(batch, {7, 1, 2, 3, 4, 5, 6, 7});
      a.weights = b.weights = {0, 1, 1, 1, 1, 1, 1, 0.5f};
      CHECK(After(config, a) == After(config, b));
      a.weights[0] = b.weights[0] = 1;
      CHECK(After(config, a) != After(config, b));
    }
  }
}

TEST_CASE("weights of another scale scale the gradients and leave the masses") {
  for (const float sparsify : {0.0f, 1.0f / 8}) {
    CAPTURE(sparsify);
    Config config = SynchronousConfig();
    config.model.active = ActiveSet::kMass;
    config.model.negatives = 40;
    config.train.sparsify = sparsify;
    LeaseBatch batch = SomeBatch(config);
    const auto run = [&](float weight, float rate, std::vector<float>* masses) {
      Config at_rate = config;
      at_rate.train.learning_rate = rate;
      LocalCluster cluster(at_rate, kSamples, {2});
      cluster.Commit(0);
      LeaseBatch weighted = batch;
      weighted.weights.assign(kBatch, weight);
      const double loss = cluster.Train(weighted, 0).loss_sum;
      cluster.Commit(1);
      std::vector<float> rows;
      for (uint32_t n = 0; n < kLabels; ++n) {
        const std::vector<float> row = Row(&cluster, LayerKind::kOutput, n);
        rows.insert(rows.end(), row.begin(), row.end());
        for (Executor* executor : cluster.executors()) {
          const Layer& layer = executor->output().layer();
          const uint32_t local = layer.map().Local(n);
          if (local != SlotMap::kNone) masses->push_back(layer.mass(local));
        }
      }
      CHECK(loss > 0);
      return std::pair(rows, loss / double{weight});
    };
    std::vector<float> masses, scaled;
    const auto plain = run(1, 1.0f, &masses);
    const auto heavy = run(4, 0.25f, &scaled);
    CHECK(Farthest(plain.first, heavy.first) < 1e-6);
    CHECK(plain.second == doctest::Approx(heavy.second));
    CHECK(masses == scaled);
    CHECK(std::ranges::any_of(masses, [](float mass) { return mass > 0; }));
  }
}

TEST_CASE("a batch whose samples all have weight 0 moves nothing") {
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    Config config = SynchronousConfig();
    config.model.loss = loss;
    LeaseBatch batch = SomeBatch(config);
    batch.weights.assign(kBatch, 0.0f);
    LeaseBatch other = SomeBatch(config, 6);
    other.weights.assign(kBatch, 0.0f);
    CHECK(After(config, batch) == After(config, other));
    LocalCluster cluster(config, kSamples, {1, 2});
    std::vector<float> untrained;
    for (uint32_t n = 0; n < kLabels; ++n) {
      const std::vector<float> row = Row(&cluster, LayerKind::kOutput, n);
      untrained.insert(untrained.end(), row.begin(), row.end());
    }
    const std::vector<float> after = After(config, batch);
    CHECK(std::equal(untrained.begin(), untrained.end(),
                     after.end() - static_cast<std::ptrdiff_t>(untrained.size())));
  }
}

}  // namespace
}  // namespace dslide::sample_weights_test
