// Memory that the model takes in servers: input rows and neurons with optimiser state, hash codes
// and places in buckets. All REQUIRE a resolved configuration.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/config.h"

namespace dslide {

// [V] Bytes of each slot.
std::vector<uint64_t> SlotMemoryBytes(const Config& config);
// Bytes of all slots.
uint64_t ModelMemoryBytes(const Config& config);

}  // namespace dslide
