// What a part of the model takes in a server's memory.
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace dslide {

// Bytes of one slot: its input rows and neurons with optimiser state, hash codes and places in
// buckets. Slots differ by one row of each at most. REQUIRES a resolved configuration.
uint64_t SlotMemoryBytes(const Config& config);

}  // namespace dslide
