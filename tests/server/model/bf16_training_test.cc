// Training with bf16 parameters and products, through the whole step, beside the same in fp32.
#include <cmath>

#include "tests/server/support/local_cluster.h"

namespace dslide::bf16_training_test {
namespace {

constexpr uint32_t kFeatures = 90, kLabels = 30, kHidden = 32;
constexpr uint32_t kBatch = 32, kEpochs = 12;
constexpr uint64_t kSamples = 640;

// Sample i has label i mod N, two of that label's three features and one feature of chance: nothing
// but chance stands in the way of a loss near 0.
LeaseBatch LearnableBatch(uint64_t number) {
  Random random(number);
  LeaseBatch batch;
  for (uint32_t i = 0; i < kBatch; ++i) {
    const auto label = static_cast<uint32_t>(random.Below(kLabels));
    const auto left_out = static_cast<uint32_t>(random.Below(3));
    const auto chance = static_cast<uint32_t>(random.Below(kFeatures));
    for (uint32_t f = 0; f < kFeatures; ++f) {
      const bool own = f / 3 == label && f % 3 != left_out;
      if (!own && f != chance) continue;
      batch.features.ids.push_back(f);
      batch.features.values.push_back(1.0f);
    }
    batch.features.EndRow();
    batch.labels.ids.push_back(label);
    batch.labels.EndRow();
  }
  return batch;
}

Config LearnableConfig(OptimizerKind optimizer, float rate, ActiveSet active) {
  Config config = SmallConfig(kFeatures, kLabels, kHidden);
  config.model.active = active;
  config.model.candidates = 5;
  config.hash.k = 1;
  config.hash.tables = 8;
  config.train.optimizer = optimizer;
  config.train.learning_rate = rate;
  config.train.batch = kBatch;
  config.train.epochs = kEpochs;
  config.train.unit_batches = 4;
  return config;
}

Config InBf16(Config config, MomentPrecision moments) {
  config.model.precision = Precision::kBf16;
  config.model.products = Products::kBf16;
  config.train.moments = moments;
  config.cluster.wire = Wire::kBf16;
  return config;
}

// Mean losses of the epochs.
std::vector<double> TrainedLosses(const Config& config, const std::vector<uint32_t>& executors) {
  LocalCluster cluster(config, kSamples, executors);
  std::vector<double> losses(kEpochs);
  constexpr uint64_t kSteps = kSamples / kBatch;
  for (uint64_t step = 0; step < kEpochs * kSteps; ++step) {
    const BatchDone done = cluster.Train(LearnableBatch(step % kSteps), step);
    losses[step / kSteps] += done.loss_sum / kSamples;
  }
  return losses;
}

void CheckLikeFp32(const Config& config, MomentPrecision moments) {
  const std::vector<double> wide = TrainedLosses(config, {1, 2});
  const std::vector<double> narrow = TrainedLosses(InBf16(config, moments), {1, 2});
  CAPTURE(wide.front());
  CAPTURE(wide.back());
  CAPTURE(narrow.front());
  CAPTURE(narrow.back());
  CHECK(wide.back() < 0.5 * wide.front());
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    CAPTURE(epoch);
    // Relative to what there was to learn.
    CHECK(std::abs(narrow[epoch] - wide[epoch]) < 0.03 * wide.front());
  }
}

TEST_CASE("a bf16 model learns as an fp32 model does, whatever the optimiser") {
  for (const ActiveSet active : {ActiveSet::kAll, ActiveSet::kLsh, ActiveSet::kMass}) {
    CAPTURE(static_cast<int>(active));
    for (const MomentPrecision moments : {MomentPrecision::kFp32, MomentPrecision::kBf16}) {
      CAPTURE(static_cast<int>(moments));
      CheckLikeFp32(LearnableConfig(OptimizerKind::kAdam, 0.01f, active), moments);
    }
    CheckLikeFp32(LearnableConfig(OptimizerKind::kAdaGrad, 0.1f, active), MomentPrecision::kBf16);
    CheckLikeFp32(LearnableConfig(OptimizerKind::kSgd, 1.0f, active), MomentPrecision::kBf16);
  }
}

}  // namespace
}  // namespace dslide::bf16_training_test
