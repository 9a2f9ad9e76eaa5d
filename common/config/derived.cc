// Derived values: from the size of the data, or from the step of the run.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "common/base/check.h"
#include "common/config/config.h"
#include "common/config/limits.h"

namespace dslide {
namespace {

// The largest K with at least kMinBucketNeurons neurons per bucket on average, and at least 1. The
// K bins of a DWTA table are disjoint parts of the H coordinates; otherwise some buckets could
// never be hit.
uint32_t DerivedHashes(const HashConfig& hash, uint32_t labels, uint32_t hidden) {
  const uint32_t bits = BitsPerHash(hash);
  const auto fits = [&](uint32_t k) {
    return k * bits <= kMaxCodeBits && (labels >> (k * bits)) >= kMinBucketNeurons &&
           (hash.family == HashFamily::kSimHash || k * hash.bin <= hidden);
  };
  uint32_t k = 1;
  while (fits(k + 1)) ++k;
  return k;
}

// Tuned on gnd-tibkat. Row-wise AdaGrad moves a new row by rate * sqrt(H) in all, so wider rows
// need a lower rate; Adam moves each element by the rate. A larger batch makes fewer steps with
// less noise: the square root of its size keeps the noise of an epoch (Malladi et al.: "On the SDEs
// and Scaling Rules for Adaptive Gradient Algorithms", NeurIPS 2022).
float DerivedLearningRate(OptimizerKind optimizer, Loss loss, uint32_t hidden, uint32_t batch) {
  const float by_width = 0.1f * std::sqrt(128.0f / static_cast<float>(hidden));
  switch (optimizer) {
    case OptimizerKind::kAdaGrad:
      return by_width * std::sqrt(static_cast<float>(batch) / 256.0f);
    case OptimizerKind::kAdam:
      return 0.01f;
    case OptimizerKind::kSgd:
      return loss == Loss::kSigmoid ? by_width : 1.0f;
  }
  DSLIDE_CHECK(false);
  return 0.0f;
}

// The most batches per unit, up to the configured number, such that whole units fill a step and
// several workers can share it.
uint32_t DerivedUnit(const TrainConfig& train) {
  constexpr uint32_t kUnitsPerStep = 8;
  const uint32_t step = train.target_batch / train.batch;
  uint32_t unit = std::clamp(step / kUnitsPerStep, 1u, train.unit_batches);
  while (step % unit != 0) --unit;
  return unit;
}

// SLIDE's own active sets are of hash tables.
ActiveSet DefaultActiveSet(const ModelConfig& model) {
  if (model.labels <= kMaxLabelsForAll) return ActiveSet::kAll;
  return model.sharing == Sharing::kBatch ? ActiveSet::kMass : ActiveSet::kLsh;
}

// Input rows take about a quarter of a batch's work. A model of few slots has few servers.
int32_t DerivedInputSlots(uint32_t slots) {
  constexpr uint32_t kFewSlots = 32;
  return slots < kFewSlots ? 0 : static_cast<int32_t>(slots / 4);
}

}  // namespace

uint32_t BitsPerHash(const HashConfig& hash) {
  return hash.family == HashFamily::kSimHash ? 1
                                             : static_cast<uint32_t>(std::bit_width(hash.bin) - 1);
}

void ResolveConfig(uint32_t features, uint32_t labels, Config* config) {
  DSLIDE_CHECK(features > 0 && labels > 0);
  ModelConfig& model = config->model;
  model.features = features;
  model.labels = labels;
  if (model.active == ActiveSet::kAuto) {
    model.active = DefaultActiveSet(model);
  }
  if (config->hash.k == 0) config->hash.k = DerivedHashes(config->hash, labels, model.hidden);
  if (model.output_init == 0.0f) {
    model.output_init = 1.0f / std::sqrt(static_cast<float>(model.hidden));
  }
  if (config->train.learning_rate == 0.0f) {
    config->train.learning_rate =
        DerivedLearningRate(config->train.optimizer, model.loss, model.hidden, config->train.batch);
  }
  const bool fp32 = model.precision == Precision::kFp32;
  if (model.products == Products::kAuto) {
    model.products = fp32 ? Products::kFp32 : Products::kBf16;
  }
  if (config->train.moments == MomentPrecision::kAuto) {
    config->train.moments = fp32 ? MomentPrecision::kFp32 : MomentPrecision::kBf16;
  }
  if (IsSynchronous(config->train)) {
    TrainConfig& train = config->train;
    if (train.target_batch == 0) train.target_batch = train.batch;
    train.unit_batches = DerivedUnit(train);
  }
  model.candidates = std::min(model.candidates, labels);
  model.popular = std::min(model.popular, labels);
  model.uniform = std::min(model.uniform, labels);
  model.negatives = std::min(model.negatives, labels);
  ClusterConfig& cluster = config->cluster;
  cluster.slots = std::min({cluster.slots, labels, features});
  if (cluster.input_slots < 0) cluster.input_slots = DerivedInputSlots(cluster.slots);
  cluster.input_slots = std::min(cluster.input_slots, static_cast<int32_t>(cluster.slots) - 1);
}

uint32_t DrawsAt(const ModelConfig& model, uint64_t step, uint64_t total) {
  const double done =
      total == 0 ? 0 : static_cast<double>(std::min(step, total)) / static_cast<double>(total);
  return std::max(1u, static_cast<uint32_t>(std::lround(model.negatives * (1.5 - done))));
}

float LearningRateAt(const TrainConfig& train, uint64_t step, uint64_t total) {
  const double peak = train.learning_rate;
  const uint64_t warmup = train.warmup_batches;
  const bool decays = train.decay != Decay::kNone;
  if (decays && step >= total) return 0.0f;
  if (step < warmup) {
    return static_cast<float>(peak * static_cast<double>(step + 1) / static_cast<double>(warmup));
  }
  if (!decays) return train.learning_rate;
  // Here warmup <= step < total. `left` falls from 1 at the end of the warm-up to 0 at `total`.
  const double left = static_cast<double>(total - step) / static_cast<double>(total - warmup);
  if (train.decay == Decay::kLinear) return static_cast<float>(peak * left);
  return static_cast<float>(peak * 0.5 * (1.0 - std::cos(std::numbers::pi * left)));
}

}  // namespace dslide
