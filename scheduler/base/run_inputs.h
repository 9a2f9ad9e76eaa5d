// What a run of the scheduler is made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/data/dataset.h"
#include "common/data/measures/metrics.h"
#include "common/security/keyed_hash.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

// What stays as it is for a life of the scheduler. The data sets must outlive it.
struct RunContext {
  Config config;  // resolved
  RunId run;
  const Dataset* train = nullptr;
  const Dataset* test = nullptr;     // null: no evaluation
  std::string checkpoint_directory;  // where checkpoints are put
  uint64_t train_checksum = 0;       // Checksum(*train)
  uint64_t audit_secret = 0;         // decides which batches are audited; nobody may know it
  bool keyed = false;         // members have keys, whose fingerprints incarnations begin with
  uint64_t preprocessor = 0;  // checksum of its file; 0: samples are numbers
  HashKey ticket_key = {};    // of this life's tickets and receipts; servers know it too
};

// The same, with what earlier lives have left.
struct RunInputs : RunContext {
  // Of the training file's labels, also those that are left out; unknown: of those of `train`.
  InversePropensities inverse_propensities = {};
  LedgerState ledger = {};                    // of the run so far; not opened: a new one
  std::optional<Manifest> checkpoint = {};    // the newest complete one, to go back to
  std::string checkpoint_path = {};           // its own directory
  std::vector<std::string> checkpoints = {};  // names of all complete ones, oldest first
};

}  // namespace dslide
