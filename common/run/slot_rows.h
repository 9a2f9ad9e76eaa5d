// How ids (neurons, features) are spread over the model's V slots.
//
// Without cluster.input_slots every slot holds rows of both layers. With I input slots, the last I
// hold all input rows and the others all neurons, so that few servers are asked for input rows. A
// layer spreads its ids over the slots that hold rows of it:
//   slot = first + id mod count,  row within the slot = id div count
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/config/config.h"

namespace dslide {

// D + 1 + R: the rows of the input layer, which are those of the features, of the bias and of dense
// layers. The limits of the configuration keep it below 2^32.
uint64_t InputRowCount(const ModelConfig& model);
// The parameters of all layers, without what rows have left over.
uint64_t ParameterCount(const ModelConfig& model);

// The slots [first, first + count) hold the rows of a layer. count > 0.
struct SlotRange {
  uint32_t first = 0;
  uint32_t count = 1;

  bool Has(SlotId slot) const { return slot.value >= first && slot.value - first < count; }
  SlotId SlotOf(uint32_t id) const { return {first + id % count}; }
};

SlotRange InputSlots(const ClusterConfig& cluster);
SlotRange OutputSlots(const ClusterConfig& cluster);

// How many of the ids [0, total) are in a slot.
inline uint64_t RowsOfSlot(uint64_t total, const SlotRange& range, SlotId slot) {
  if (!range.Has(slot) || slot.value - range.first >= total) return 0;
  return (total - (slot.value - range.first) - 1) / range.count + 1;
}

// Rows of both layers. `config` is resolved.
uint64_t RowsOfSlot(const Config& config, SlotId slot);
uint64_t RowsOfSlots(const Config& config, std::span<const SlotId> slots);

std::vector<SlotId> AllSlots(const ClusterConfig& cluster);

// [parts] Divides slots (ascending) into parts, the rows of each layer evenly. Neighbouring slots
// stay together where they can.
std::vector<std::vector<SlotId>> DivideSlots(const std::vector<SlotId>& slots,
                                             const ClusterConfig& cluster, uint32_t parts);

}  // namespace dslide
