// The whole training step (BatchFlight, wire, executors) against a dense reference network.
#include "tests/server/support/dense_copy.h"
#include "tests/server/support/local_cluster.h"

namespace dslide::dense_reference_test {
namespace {

constexpr uint32_t kFeatures = 60, kLabels = 40, kHidden = 12;
constexpr uint32_t kBatch = 16, kSteps = 50;
constexpr uint64_t kSamples = 160;

// Up over ten batches, then linearly to 0 at the end (config.h).
double Rate(const TrainConfig& train, uint32_t step) {
  if (step < 10) return double{train.learning_rate} * (step + 1) / 10;
  return double{train.learning_rate} * (kSteps - step) / 40;
}

// 0 to 3 in quarters, 0 for every sixth sample.
void Weigh(LeaseBatch* batch, Random* random) {
  for (uint32_t i = 0; i < batch->features.rows(); ++i) {
    batch->weights.push_back(i % 6 == 4 ? 0.0f : static_cast<float>(1 + random->Below(12)) / 4);
  }
}

void CheckAgainstReference(const Config& config, const std::vector<uint32_t>& executors,
                           bool weighted = false) {
  CAPTURE(executors.size());
  LocalCluster cluster(config, kSamples, executors);
  DenseNetwork reference = CopyOf(&cluster);
  Random random(11);
  std::vector<LeaseBatch> data;
  for (uint64_t i = 0; i < kSamples / kBatch; ++i) {
    data.push_back(RandomBatch(config, kBatch, 3, &random));
    if (weighted) Weigh(&data.back(), &random);
  }
  double first = 0, last = 0;
  for (uint32_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    const LeaseBatch& batch = data[step % data.size()];
    const BatchDone done = cluster.Train(batch, step);
    const double loss = reference.Train(config, batch, Rate(config.train, step));
    REQUIRE(done.loss_sum == doctest::Approx(loss).epsilon(1e-4));
    CHECK(done.active_neurons_sum == uint64_t{kBatch} * kLabels);
    CHECK(done.active_rows == kLabels);
    if (step < data.size()) first += loss;
    if (step + data.size() >= kSteps) last += loss;
  }
  CHECK(last < 0.97 * first);  // it learned something, so the weights have moved
  CHECK(WorstError(&cluster, reference) < 1e-4);
}

Config ReferenceConfig(OptimizerKind optimizer, float rate, Loss loss) {
  Config config = SmallConfig(kFeatures, kLabels, kHidden);
  config.model.loss = loss;
  config.train.optimizer = optimizer;
  config.train.learning_rate = rate;
  config.train.dropout_hidden = 0.0f;
  config.train.batch = kBatch;
  config.train.epochs = 5;
  config.train.unit_batches = 4;
  config.train.warmup_batches = 10;
  config.train.decay = Decay::kLinear;
  return config;
}

void CheckAllSplits(const Config& config, bool weighted = false) {
  CheckAgainstReference(config, {1}, weighted);
  CheckAgainstReference(config, {1, 1, 1}, weighted);
  CheckAgainstReference(config, {1, 2, 1}, weighted);
}

TEST_CASE("a cluster trains like the dense reference, whatever the optimiser, loss and weights") {
  struct Rates {
    OptimizerKind optimizer;
    float softmax, sigmoid;
  };
  for (const Rates& rates : {Rates{OptimizerKind::kAdam, 0.02f, 0.02f},
                             {OptimizerKind::kAdaGrad, 0.2f, 0.1f},
                             {OptimizerKind::kSgd, 1.0f, 0.3f}}) {
    for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
      for (const bool weighted : {false, true}) {
        CAPTURE(static_cast<int>(rates.optimizer));
        CAPTURE(static_cast<int>(loss));
        CAPTURE(weighted);
        // Weights of up to 3 are as large as rates three times as high.
        const float rate = loss == Loss::kSigmoid || weighted ? rates.sigmoid : rates.softmax;
        CheckAllSplits(ReferenceConfig(rates.optimizer, rate, loss), weighted);
      }
    }
  }
}

TEST_CASE("a cluster with weight decay or linear hidden units trains like the dense reference") {
  Config decayed = ReferenceConfig(OptimizerKind::kAdam, 0.02f, Loss::kSoftmax);
  decayed.train.weight_decay = 0.1f;
  CheckAllSplits(decayed);
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    CAPTURE(static_cast<int>(loss));
    Config linear = ReferenceConfig(OptimizerKind::kAdaGrad, 0.1f, loss);
    linear.model.activation = Activation::kLinear;
    CheckAllSplits(linear, true);
  }
}

TEST_CASE("a cluster with slots of one layer each trains like the dense reference") {
  for (const int32_t input_slots : {1, 4, 7}) {
    CAPTURE(input_slots);
    Config config = ReferenceConfig(OptimizerKind::kAdam, 0.02f, Loss::kSoftmax);
    REQUIRE(config.cluster.slots >= 8);
    config.cluster.input_slots = input_slots;
    CheckAllSplits(config);
  }
}

TEST_CASE("a cluster with dense layers trains like the dense reference") {
  for (const std::vector<uint32_t>& dense :
       std::vector<std::vector<uint32_t>>{{12}, {20}, {7, 9}}) {
    CAPTURE(dense.front());
    for (Config config : {ReferenceConfig(OptimizerKind::kAdam, 0.01f, Loss::kSoftmax),
                          ReferenceConfig(OptimizerKind::kAdaGrad, 0.1f, Loss::kSoftmax),
                          ReferenceConfig(OptimizerKind::kSgd, 0.3f, Loss::kSigmoid)}) {
      config.model.dense = dense;
      config.train.dense_rate = 0.5f;
      CheckAllSplits(config);
      CheckAllSplits(config, true);
      config.train.weight_decay = 0.1f;
      config.cluster.input_slots = 3;
      CheckAllSplits(config);
    }
  }
}

void CheckNearReference(Wire wire, const std::vector<uint32_t>& dense = {}) {
  Config config = ReferenceConfig(OptimizerKind::kSgd, 1.0f, Loss::kSoftmax);
  config.model.dense = dense;
  config.cluster.wire = wire;
  LocalCluster cluster(config, kSamples, {2, 1});
  DenseNetwork reference = CopyOf(&cluster);
  Random random(11);
  for (uint32_t step = 0; step < 20; ++step) {
    const LeaseBatch batch = RandomBatch(config, kBatch, 3, &random);
    const double loss = reference.Train(config, batch, Rate(config.train, step));
    CHECK(cluster.Train(batch, step).loss_sum == doctest::Approx(loss).epsilon(0.02));
  }
}

TEST_CASE("bf16 and int8 on the wire stay near the dense reference") {
  CheckNearReference(Wire::kBf16);
  CheckNearReference(Wire::kInt8);
  CheckNearReference(Wire::kBf16, {12, 6});
  CheckNearReference(Wire::kInt8, {12, 6});
}

}  // namespace
}  // namespace dslide::dense_reference_test
