// The scheduler's ledger: what happened in a run, in order, on disk. A scheduler that died comes
// back from it, and `dslide ledger verify` recounts from it.
//
// An append-only log in RocksDB (RUN/ledger): entry n under the key n (8 bytes, big-endian), its
// value with a checksum of its own (ledger_value.h). This is the only interface to it. One thread
// uses it.
//
// Durability: an entry outlives the death of the process as soon as Append() returns; those that
// decide what a later life may do (all but LedgerCounted) outlive that of the machine as well. A
// LedgerCounted that is lost with the machine does no harm: its batch is leased again, and servers
// apply a batch once. But what servers are told counts (steps to commit, a checkpoint) has to
// outlive the machine before they are: Sync(). What a power failure takes is the newest entries,
// never one in the middle.
//
// Size: nothing is ever removed, and nothing is rewritten, because keys only grow. A batch costs
// about 120 bytes of write-ahead log, of which the last 8 MB stay, and about 30 bytes in a table
// afterwards: 30 MB for a million batches. 8 epochs over a million samples in batches of 256 are
// 31,000 batches, 1 MB.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/checkpoint/manifest.h"
#include "common/wire/messages.h"
#include "scheduler/ledger/done_set.h"

namespace dslide {

// The first entry; again where a run goes on with another configuration.
struct LedgerOpened {
  RunId run;
  std::string config;  // effective configuration, INI text
  uint64_t train_samples = 0;
  uint64_t train_checksum = 0;
  bool operator==(const LedgerOpened&) const = default;
};
// A slot plan, with the servers' incarnations. Where it begins a generation, what counts is what
// the LedgerRestored before it says; otherwise slots have moved, and what counts stays.
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
  std::vector<DoneBatch> done;  // of `epoch`, each once, in the order in which they counted
  std::string last_checkpoint;  // name; empty: none
  bool finished = false;

  // Adds an entry. A LedgerCounted adds nothing if its batch counts already, or is of an epoch that
  // is not in progress.
  void Apply(const LedgerEntry& entry);

  // Whether a batch is among those that count.
  bool Counts(const BatchId& batch) const;

 private:
  void Add(const LedgerOpened& entry);
  void Add(const LedgerPlanned& entry);
  void Add(const LedgerRestored& entry);
  void Add(const LedgerCounted& entry);
  void Add(const LedgerEpochDone& entry);
  void Add(const LedgerCheckpointed& entry);
  void Add(const LedgerStopped& entry);

  DoneSet counted_;  // what `done` lists
};

class Ledger {
 public:
  // Opens the ledger in a directory, or creates an empty one. `*state` is what its entries add up
  // to. An incomplete last entry, as a power failure leaves it, is dropped. Errors name the
  // directory or file and what is wrong with it: damage and another format are kBadInput, a
  // scheduler that has it open is kTryLater.
  static Result<std::unique_ptr<Ledger>> Open(const std::string& directory, LedgerState* state);

  // All entries in order, without changing anything on disk, also while a scheduler has it open:
  // then those that were there at some moment during the call. Stops at the first error of `entry`
  // and returns it. Errors otherwise as Open(); a ledger that does not exist is kBadInput.
  static Status ForEach(const std::string& directory,
                        const std::function<Status(uint64_t number, LedgerEntry entry)>& entry);
  static Result<std::vector<LedgerEntry>> Read(const std::string& directory);

  ~Ledger();

  // REQUIRES that the first entry of a ledger is LedgerOpened. After an error the disk's state is
  // unknown: every later Append() returns the same error.
  // Appends all of them or none.
  Status Append(std::span<const LedgerEntry> entries);
  Status Append(const LedgerEntry& entry) { return Append({&entry, 1}); }
  // All entries so far outlive the machine. Errors as Append().
  Status Sync();
  uint64_t entries() const { return entries_; }

 private:
  struct Impl;
  Ledger(std::unique_ptr<Impl> impl, uint64_t entries);
  std::unique_ptr<Impl> impl_;
  uint64_t entries_ = 0;
};

}  // namespace dslide
