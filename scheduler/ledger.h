// The scheduler's ledger: what happened in a run, in order, on disk. A scheduler that died comes
// back from it, and `dslide ledger verify` recounts from it.
//
// An append-only log in RocksDB (RUN/ledger), entry n under the key n (8 bytes, big-endian), each
// a FlatBuffer (schema/ledger.fbs) with a checksum. This is the only interface to it.
//
// Durability: an entry outlives the death of the process as soon as Append() returns; those that
// decide what a later life may do (all but LedgerCounted) outlive that of the machine as well. A
// LedgerCounted that is lost with the machine does no harm: its batch is leased again, and servers
// apply a batch once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/checkpoint/manifest.h"
#include "common/net/messages.h"

namespace dslide {

// The first entry.
struct LedgerOpened {
  RunId run;
  std::string config;  // effective configuration, INI text
  uint64_t train_samples = 0;
  uint64_t train_checksum = 0;
  bool operator==(const LedgerOpened&) const = default;
};
// A slot plan, with the servers' incarnations: a new generation. What counts is what the
// LedgerRestored before it says.
struct LedgerPlanned {
  Plan plan;
  bool operator==(const LedgerPlanned&) const = default;
};
// The cluster goes back to a checkpoint (name empty: to the beginning): from here on these batches
// count, and no others.
struct LedgerRestored {
  std::string checkpoint;
  uint32_t epoch = 0;
  uint64_t batches = 0;
  uint64_t samples = 0;
  std::vector<DoneBatch> done;  // of `epoch`
  bool operator==(const LedgerRestored&) const = default;
};
// A batch of the plan in force counts.
struct LedgerCounted {
  BatchId batch;
  uint32_t samples = 0;
  std::string worker;
  bool operator==(const LedgerCounted&) const = default;
};
// So many epochs are trained.
struct LedgerEpochDone {
  uint32_t epochs = 0;
  bool operator==(const LedgerEpochDone&) const = default;
};
// A checkpoint is complete: its manifest is written.
struct LedgerCheckpointed {
  std::string checkpoint;
  uint64_t batches = 0;
  bool operator==(const LedgerCheckpointed&) const = default;
};
// The scheduler ended on purpose; nobody of the plan is left.
struct LedgerStopped {
  bool finished = false;  // training and evaluation are done
  bool operator==(const LedgerStopped&) const = default;
};

using LedgerEntry = std::variant<LedgerOpened, LedgerPlanned, LedgerRestored, LedgerCounted,
                                 LedgerEpochDone, LedgerCheckpointed, LedgerStopped>;

// Where a run stands: what all entries so far add up to.
struct LedgerState {
  bool opened = false;
  LedgerOpened run;
  uint64_t entries = 0;
  Plan plan;             // version 0: none yet
  bool live = false;     // the plan's servers may still hold its state (no LedgerStopped since)
  uint32_t epoch = 0;    // in progress
  uint64_t batches = 0;  // that count, over all epochs
  uint64_t samples = 0;
  std::vector<DoneBatch> done;  // of `epoch`, in the order in which they counted
  std::string last_checkpoint;  // name; empty: none
  bool finished = false;

  // Adds an entry.
  void Apply(const LedgerEntry& entry);
};

class Ledger {
 public:
  // Opens or creates the ledger in a directory. `*state` is what its entries add up to. Errors name
  // the directory or file and what is wrong with it. An incomplete last entry, as a power failure
  // leaves it, is dropped.
  static Result<std::unique_ptr<Ledger>> Open(const std::string& directory, LedgerState* state);
  // All entries, without changing anything on disk (also while a scheduler has it open).
  static Result<std::vector<LedgerEntry>> Read(const std::string& directory);
  ~Ledger();

  Status Append(const LedgerEntry& entry);
  uint64_t entries() const { return entries_; }

 private:
  struct Impl;
  explicit Ledger(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  uint64_t entries_ = 0;
};

}  // namespace dslide
