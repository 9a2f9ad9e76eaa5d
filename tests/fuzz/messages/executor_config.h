// Small executors of all kinds, for the targets that need one.
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "common/run/slot_rows.h"

namespace dslide::fuzz {

constexpr uint8_t kExecutorConfigs = 8;  // that differ most
constexpr uint32_t kFeatures = 20, kLabels = 15, kHidden = 4;

// `kind` modulo kExecutorConfigs.
inline Config ExecutorConfig(uint8_t kind) {
  constexpr ActiveSet kActive[] = {ActiveSet::kAll, ActiveSet::kMass, ActiveSet::kMass,
                                   ActiveSet::kLsh, ActiveSet::kMass, ActiveSet::kLsh,
                                   ActiveSet::kAll, ActiveSet::kMass};
  const uint8_t which = kind % kExecutorConfigs;
  Config config;
  config.common.seed = 7;
  config.model.hidden = kHidden;
  config.model.active = kActive[which];
  config.hash.tables = 2;
  config.train.learning_rate = 0.1f;
  config.train.optimizer = which < 3 ? OptimizerKind::kAdam : OptimizerKind::kAdaGrad;
  config.train.staleness = which == 4 || which == 7 ? 0 : -1;
  if (which >= 6) config.model.dense = {kHidden + 1, kHidden};
  config.model.precision = which % 2 == 0 ? Precision::kFp32 : Precision::kBf16;
  config.cluster.slots = 4;
  config.cluster.input_slots = which == 0 ? 0 : 1;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

}  // namespace dslide::fuzz
