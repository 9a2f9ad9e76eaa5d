// The disks of the cluster: checkpoints in memory, by their directory's path. Outlives all
// processes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "server/stored_rows.h"
#include "tests/simulation/applied_shadow.h"

namespace dslide::sim {

using StoredRows = std::map<StoredRowKey, std::vector<uint8_t>>;

struct SimShard {
  StoredRows rows;
  std::vector<std::string> records;  // of the executors that wrote it
  AppliedShadow shadow;              // what the simulation itself saw go into these rows
};

struct SimCheckpoint {
  std::map<std::string, SimShard> shards;  // by directory
  std::optional<Manifest> manifest;        // none: incomplete
};

struct SimDisk {
  std::map<std::string, SimCheckpoint> checkpoints;
};

}  // namespace dslide::sim
