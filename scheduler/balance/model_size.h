// Memory that the model takes in servers: input rows and neurons with optimiser state, hash codes
// and places in buckets. All REQUIRE a resolved configuration.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/config.h"

namespace dslide {

struct RowMemory {
  uint64_t input;
  uint64_t neuron;
};
// Bytes of a row.
RowMemory MemoryOfRows(const Config& config);
// [V] Bytes of each slot.
std::vector<uint64_t> SlotMemoryBytes(const Config& config);
// Bytes of all slots.
uint64_t ModelMemoryBytes(const Config& config);

// What a server can hold that has disk for rows, too. Some of each row stays in memory whatever is
// on the disk, and only three quarters of the memory are for rows then (Executor::LimitMemory).
uint64_t WithDisk(const Config& config, uint64_t memory_bytes, uint64_t disk_bytes);

}  // namespace dslide
