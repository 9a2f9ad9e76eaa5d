// The disks of the cluster, which outlive all processes: the checkpoints, by the path of their
// directory, and the scheduler's ledger. All in memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "scheduler/ledger/ledger.h"
#include "server/executor/state/stored_rows.h"
#include "tests/simulation/world/applied_shadow.h"

namespace dslide::sim {

using StoredRows = std::map<StoredRowKey, std::vector<uint8_t>>;

struct SimShard {
  StoredRows rows;
  std::vector<std::string> records;  // of the executors that wrote it
  AppliedShadow shadow;              // the batches that the simulation itself saw change these rows
};

struct SimCheckpoint {
  std::map<std::string, SimShard> shards;  // by directory
  std::optional<Manifest> manifest;        // none: incomplete
};

struct SimDisk {
  std::map<std::string, SimCheckpoint> checkpoints;  // names sort by age
  std::vector<LedgerEntry> ledger;
  size_t synced = 0;  // entries that survive a crash of the machine

  // The newest complete checkpoint, or null.
  const SimCheckpoint* Newest() const;
  std::vector<std::string> CompleteNames() const;  // oldest first
  // As PruneCheckpoints() of common/checkpoint/manifest.h.
  void Prune(size_t keep);
  // The scheduler's machine lost its power: of the entries not synced, which only count batches,
  // the first `kept` stay.
  void LosePower(size_t kept);
};

}  // namespace dslide::sim
