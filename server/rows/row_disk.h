// Disk for rows that memory has no room for (cluster.disk_tier): what a process may take, and how
// the layers of an executor share its memory and disk.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/config/config.h"
#include "server/rows/layer.h"

namespace dslide {

struct RowDisk {
  std::string directory;  // empty if rows may not be on disk
  uint64_t bytes = 0;     // that rows may take there
};

// The disk of this machine that the configuration gives to rows. Error: its directory can have no
// file. Where no directory is named, *why_none says so instead.
Result<RowDisk> DiskForRows(const Config& config, std::string* why_none);

// Where the rows of an executor are.
struct RowPlaces {
  uint64_t in_memory = 0;  // at most at a time
  uint64_t rows = 0;       // of the layers that have files; 0 if all rows are in memory
  uint64_t disk_bytes = 0;
};

// Limits the memory of an executor's rows to `bytes`, including bookkeeping, `index_bytes` of it a
// neuron beside the layer's own. If rows need more, some are in files, and a quarter of `bytes` is
// left for transfers and batches. Call before rows are set. Error: no file can be made, the memory
// is too small even for the bookkeeping, or the disk is too small.
Result<RowPlaces> LimitMemory(uint32_t executor, const RowDisk& disk, uint64_t bytes,
                              uint64_t index_bytes, Layer* input, Layer* output);

}  // namespace dslide
