// How ids (neurons, features) are spread over slots: slot = id mod V, row within the slot = id div
// V.
#pragma once

#include <cstdint>

#include "common/base/ids.h"

namespace dslide {

// How many of the ids [0, total) are in one of `slots` slots.
inline uint64_t RowsOfSlot(uint64_t total, uint64_t slots, SlotId slot) {
  return slot.value < total ? (total - slot.value - 1) / slots + 1 : 0;
}

}  // namespace dslide
