#include "tests/server/support/test_batches.h"

namespace dslide {

Config SmallConfig(uint32_t features, uint32_t labels, uint32_t hidden) {
  Config config;
  config.model.precision = Precision::kFp32;  // what references in double are held against
  config.common.seed = 7;
  config.model.hidden = hidden;
  config.model.active = ActiveSet::kAll;
  config.model.input_init = 0.3f;
  config.train.warmup_batches = 0;
  config.train.decay = Decay::kNone;
  config.train.optimizer = OptimizerKind::kSgd;
  config.train.learning_rate = 1.0f;
  config.train.dense_rate = 1.0f;
  config.train.dropout_hidden = 0.0f;
  config.train.label_smoothing = 0.0f;
  config.train.sparsify = 0.0f;
  config.cluster.wire = Wire::kFp32;
  config.cluster.slots = 8;
  ResolveConfig(features, labels, &config);
  return config;
}

Config InBf16(Config config) {
  config.model.precision = Precision::kBf16;
  config.model.products = Products::kBf16;
  config.train.moments = MomentPrecision::kBf16;
  config.cluster.wire = Wire::kBf16;
  return config;
}

std::vector<SlotId> AllSlots(const Config& config) {
  std::vector<SlotId> slots;
  for (uint32_t s = 0; s < config.cluster.slots; ++s) slots.push_back({s});
  return slots;
}

LeaseBatch RandomBatch(const Config& config, uint32_t samples, uint32_t most_labels,
                       Random* random) {
  const auto distinct = [&](uint64_t count, uint32_t bound) {
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < bound; ++id) {
      if (random->Below(bound) < count) ids.push_back(id);
    }
    return ids;
  };
  LeaseBatch batch;
  for (uint32_t i = 0; i < samples; ++i) {
    for (const uint32_t id : distinct(5, config.model.features)) {
      batch.features.ids.push_back(id);
      batch.features.values.push_back(static_cast<float>(random->Uniform() + 0.2));
    }
    batch.features.EndRow();
    for (const uint32_t id : distinct(most_labels, config.model.labels)) {
      batch.labels.ids.push_back(id);
    }
    batch.labels.EndRow();
  }
  return batch;
}

}  // namespace dslide
