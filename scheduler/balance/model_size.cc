#include "scheduler/balance/model_size.h"

#include "common/run/slot_rows.h"

namespace dslide {

uint64_t SlotMemoryBytes(const Config& config) {
  constexpr uint64_t kScalars = 16;  // bias and optimiser scalars of a row
  constexpr uint64_t kCode = 2, kEntry = 4;
  const ModelConfig& model = config.model;
  const uint64_t weight = model.precision == Precision::kBf16 ? 2 : 4;
  const uint64_t moment = config.train.moments == MomentPrecision::kBf16 ? 2 : 4;
  const uint64_t moments = config.train.optimizer == OptimizerKind::kAdam ? 2 : 0;
  const uint64_t row = model.hidden * (weight + moments * moment) + kScalars;
  // One more table is always being built, with the codes of its counting stage; a flag says whether
  // the row changed.
  const uint64_t hashed = (config.hash.tables + 1) * (kCode + kEntry) + 1;
  const uint64_t slots = config.cluster.slots;
  const SlotId largest{0};
  const uint64_t input_rows = RowsOfSlot(uint64_t{model.features} + 1, slots, largest);  // and bias
  const uint64_t neurons = RowsOfSlot(model.labels, slots, largest);
  constexpr uint64_t kMass = 13;  // and the neuron's place in its class
  const uint64_t index =
      (model.active == ActiveSet::kLsh ? hashed : 0) + (DrawsByMass(model) ? kMass : 0);
  return (input_rows + neurons) * row + neurons * index;
}

}  // namespace dslide
