#include "common/run/slot_rows.h"

#include <algorithm>
#include <utility>

#include "common/config/limits.h"

namespace dslide {
namespace {

// How many slots hold input rows only.
uint32_t OnlyInput(const ClusterConfig& cluster) {
  return static_cast<uint32_t>(std::max(cluster.input_slots, 0));
}

}  // namespace

uint64_t InputRowCount(const ModelConfig& model) {
  return uint64_t{model.features} + 1 + RowsOfDenseLayers(model);
}

uint64_t ParameterCount(const ModelConfig& model) {
  uint64_t count = uint64_t{model.hidden} * (uint64_t{model.features} + 1) +
                   uint64_t{model.labels} * (uint64_t{OutputWidth(model)} + 1);
  uint64_t in = model.hidden;
  for (const uint64_t out : model.dense) count += out * (std::exchange(in, out) + 1);
  return count;
}

SlotRange InputSlots(const ClusterConfig& cluster) {
  const uint32_t own = OnlyInput(cluster);
  return own == 0 ? SlotRange{0, cluster.slots} : SlotRange{cluster.slots - own, own};
}

SlotRange OutputSlots(const ClusterConfig& cluster) {
  return {0, cluster.slots - OnlyInput(cluster)};
}

uint64_t RowsOfSlot(const Config& config, SlotId slot) {
  const uint64_t features = InputRowCount(config.model);
  return RowsOfSlot(features, InputSlots(config.cluster), slot) +
         RowsOfSlot(config.model.labels, OutputSlots(config.cluster), slot);
}

uint64_t RowsOfSlots(const Config& config, std::span<const SlotId> slots) {
  uint64_t rows = 0;
  for (const SlotId slot : slots) rows += RowsOfSlot(config, slot);
  return rows;
}

std::vector<SlotId> AllSlots(const ClusterConfig& cluster) {
  std::vector<SlotId> slots;
  for (uint32_t s = 0; s < cluster.slots; ++s) slots.push_back({s});
  return slots;
}

std::vector<std::vector<SlotId>> DivideSlots(const std::vector<SlotId>& slots,
                                             const ClusterConfig& cluster, uint32_t parts) {
  const SlotRange neurons = OutputSlots(cluster);
  const auto end = std::ranges::partition_point(slots, [&](SlotId s) { return neurons.Has(s); });
  const auto with_neurons = static_cast<size_t>(end - slots.begin());
  const size_t others = slots.size() - with_neurons;
  std::vector<std::vector<SlotId>> divided(parts);
  for (size_t i = 0; i < with_neurons; ++i) {
    divided[i * parts / with_neurons].push_back(slots[i]);
  }
  // From the last part on, so that a few slots of each kind are in different parts.
  for (size_t i = 0; i < others; ++i) {
    divided[parts - 1 - i * parts / others].push_back(slots[with_neurons + i]);
  }
  return divided;
}

}  // namespace dslide
