// Slot plans: which server owns which slots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/run/slot_rows.h"
#include "common/wire/messages.h"

namespace dslide {

// Contiguous ranges of slots of nearly equal size, one per server, in the servers' order.
// REQUIRES servers not empty, at most 65535.
Plan EqualPlan(uint32_t version, uint32_t slots, std::vector<PlanServer> servers);

// The slots of server `index`, ascending.
std::vector<SlotId> SlotsOf(const Plan& plan, ServerIndex index);

// [servers] Which servers own a slot of the range.
std::vector<bool> ServersWith(const Plan& plan, const SlotRange& range);

// The position of `server` among the plan's servers; none if the plan is without it.
std::optional<uint32_t> IndexOf(const Plan& plan, Incarnation server);
inline bool HasServer(const Plan& plan, Incarnation server) {
  return IndexOf(plan, server).has_value();
}

// The first version of the plan's generation.
inline uint32_t GenerationOf(const Plan& plan) {
  return plan.generation == 0 ? plan.version : plan.generation;
}

// The configuration with the sizes that the model has under a plan.
inline Config SizedBy(const ModelShape& shape, Config config) {
  if (shape.epoch == 0) return config;
  config.model.features = shape.features;
  config.model.labels = shape.labels;
  config.train.epoch_samples = shape.samples;
  return config;
}

// The configuration of a member under a plan: `config`, which the member got when it joined, with
// the plan's settings and the model's present sizes. Errors (kBadInput): a setting is not a value
// of a key, or changes a key that --resume cannot change; the shape does not fit the run.
Result<Config> ConfigUnder(const Plan& plan, const Config& config);

// Whether what was said under plan version `version` holds under `plan`: plans of one generation
// carry the same state on.
inline bool IsInGeneration(const Plan& plan, uint32_t version) {
  return version <= plan.version && version >= GenerationOf(plan);
}

}  // namespace dslide
