// Whether every sample counted exactly once: the ledger's account against what the servers' slots
// have taken, by the records in a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "server/executor/applied_batches.h"
#include "tools/dslide/ledger/ledger_account.h"

namespace dslide {

// What a checkpoint says of batches.
struct CheckpointRecords {
  Manifest manifest;
  std::vector<AppliedBatches::Group> groups;  // of all executors of all shards
};

// Of a checkpoint's directory. Errors (kBadInput) name the file or the shard.
Result<CheckpointRecords> ReadCheckpointRecords(const std::string& directory);

struct LedgerAudit {
  std::vector<LedgerAccount::EpochCount> epochs;  // [train.epochs], all findings together
  uint64_t seen = 0;                              // over all epochs, in samples
  uint64_t duplicated = 0;
  uint64_t missing = 0;  // of the epochs done; of all epochs if the run is finished
  uint64_t lacking = 0;  // batches that count in the checkpoint and that some slot lacks a part of
  std::string checkpoint;  // whose records were compared; empty: none
  std::vector<std::string> problems;

  bool clean() const { return duplicated == 0 && missing == 0 && problems.empty(); }
};

// A sample is duplicated if its batch counts twice in the surviving history, or if a slot is in two
// servers' records that both have it. It is missing if its batch does not count, or if it counts in
// the checkpoint but a slot's record lacks its output part or its input part.
LedgerAudit Audit(const LedgerAccount& account, const std::optional<CheckpointRecords>& records);

}  // namespace dslide
