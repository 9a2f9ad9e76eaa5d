// Checks that every sample counted exactly once: compares the ledger's account with the batches
// that the servers' slots have applied, according to the records in a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "server/executor/batches/applied_batches.h"
#include "tools/dslide/ledger/ledger_account.h"

namespace dslide {

// A checkpoint's records of applied batches.
struct CheckpointRecords {
  Manifest manifest;
  std::vector<AppliedBatches::Group> groups;  // of all executors of all shards
};

// Reads the records of a checkpoint's directory. Errors (kBadInput) name the file or the shard.
Result<CheckpointRecords> ReadCheckpointRecords(const std::string& directory);

struct LedgerCheck {
  std::vector<LedgerAccount::EpochCount> epochs;  // [train.epochs], all findings together
  uint64_t seen = 0;                              // over all epochs, in samples
  uint64_t duplicated = 0;
  uint64_t missing = 0;    // of the epochs done; of all epochs if the run is finished
  uint64_t unsaved = 0;    // batches that count and are in no checkpoint
  uint64_t lacking = 0;    // batches that count in the checkpoint but lack a part in a slot
  std::string checkpoint;  // whose records were compared; empty: none
  std::vector<std::string> problems;

  bool clean() const { return duplicated == 0 && missing == 0 && problems.empty(); }
};

// A sample is duplicated if its batch counts twice in the surviving history, or if a slot is in two
// servers' records and both include the batch. It is missing if its batch does not count, or if it
// counts in the checkpoint but a slot's record lacks its output part or its input part.
LedgerCheck CheckLedger(const LedgerAccount& account,
                        const std::optional<CheckpointRecords>& records);

}  // namespace dslide
