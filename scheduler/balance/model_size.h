// Memory that the model takes in servers: input rows and neurons with optimiser state, hash codes
// and places in buckets. All REQUIRE a resolved configuration.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/config/config.h"

namespace dslide {

// [V] Bytes of each slot.
std::vector<uint64_t> SlotMemoryBytes(const Config& config);
// Bytes of all slots.
uint64_t ModelMemoryBytes(const Config& config);

// What a server can hold whose rows may take disk, too. Some of each row stays in memory, and with
// ever less of the others there training stands still: 32 times the memory at most.
constexpr uint64_t kMostOnDisk = 32;
constexpr uint64_t WithDisk(uint64_t memory_bytes, uint64_t disk_bytes) {
  return memory_bytes + std::min(disk_bytes, (kMostOnDisk - 1) * memory_bytes);
}

}  // namespace dslide
