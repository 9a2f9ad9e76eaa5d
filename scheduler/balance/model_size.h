// Memory that a part of the model takes in a server.
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace dslide {

// Bytes of one slot: its input rows and neurons with optimiser state, hash codes and places in
// buckets. Slots differ by at most one row of each kind. REQUIRES a resolved configuration.
uint64_t SlotMemoryBytes(const Config& config);

}  // namespace dslide
