// The scheduler's ledger: the events of a run, in order, on disk. A scheduler that died recovers
// from it, and `dslide ledger verify` recounts from it.
//
// An append-only log in RocksDB (RUN/ledger): entry n under the key n (8 bytes, big-endian), its
// value with a checksum of its own (ledger_value.h). This is the only interface to it. One thread
// uses it.
//
// Durability: an entry survives the death of the process as soon as Append() returns. Entries that
// decide what a later life may do (all but LedgerCounted) also survive a crash of the machine. A
// LedgerCounted that is lost in such a crash does no harm: its batch is leased again, and servers
// apply a batch once. But before servers are told what counts (steps to commit, a checkpoint), the
// entries must survive a crash: Sync(). A power failure loses the newest entries, never one in the
// middle.
//
// Size: nothing is ever removed, and nothing is rewritten, because keys only grow. A batch costs
// about 120 bytes of write-ahead log (the last 8 MB are kept) and later about 30 bytes in a table:
// 30 MB for a million batches. 8 epochs over a million samples in batches of 256 are 31,000
// batches, 1 MB.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/checkpoint/manifest.h"
#include "common/wire/messages.h"
#include "scheduler/ledger/contributions.h"
#include "scheduler/ledger/done_set.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace dslide {

// The first entry; written again when a run continues with another configuration.
struct LedgerOpened {
  RunId run;
  std::string config;  // effective configuration, INI text
  uint64_t train_samples = 0;
  uint64_t train_checksum = 0;
  std::vector<std::string> open_keys = {};  // "section.key", whose values the run may choose
  bool operator==(const LedgerOpened&) const = default;
};
// A slot plan, with the servers' incarnations. If it begins a generation, the LedgerRestored before
// it says what counts; otherwise slots have moved, and what counts stays.
struct LedgerPlanned {
  Plan plan;
  bool operator==(const LedgerPlanned&) const = default;
};
// The cluster goes back to a checkpoint (name empty: to the beginning), or takes back what it has
// counted of a step in progress: from here on exactly these batches count.
struct LedgerRestored {
  std::string checkpoint;  // the newest one
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
  std::string key = {};  // the name of the worker's key; empty: the run has none
  uint32_t day = 0;      // of the report, days since 1970 (UTC); 0: not known
  bool operator==(const LedgerCounted&) const = default;
};
// `epochs` epochs are trained.
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
// The scheduler ended on purpose; no server of the plan is left.
struct LedgerStopped {
  bool finished = false;  // training and evaluation are done
  bool operator==(const LedgerStopped&) const = default;
};

// The held-out samples were evaluated after `epochs` epochs.
struct LedgerHeldOut {
  uint32_t epochs = 0;
  std::vector<float> ndcg;  // [samples] nDCG@5 of each, in the order of their numbers
  bool operator==(const LedgerHeldOut&) const = default;
};
// Who is to be thanked for a batch: the name of its worker's key, without keys that of the worker.
const std::string& ContributorOf(const LedgerCounted& entry);

using LedgerEntry = std::variant<LedgerOpened, LedgerPlanned, LedgerRestored, LedgerCounted,
                                 LedgerEpochDone, LedgerCheckpointed, LedgerStopped, LedgerHeldOut>;

// The state of a run: the sum of all entries so far.
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
  std::vector<LedgerHeldOut> held_out;  // `epochs` ascend
  Contributions contributions;

  // Adds an entry. A LedgerCounted adds nothing if its batch counts already or is not of the epoch
  // in progress.
  void Apply(const LedgerEntry& entry);

  // Whether a batch counts.
  bool Counts(const BatchId& batch) const;

 private:
  void Add(const LedgerOpened& entry);
  void Add(const LedgerPlanned& entry);
  void Add(const LedgerRestored& entry);
  void Add(const LedgerCounted& entry);
  void Add(const LedgerEpochDone& entry);
  void Add(const LedgerCheckpointed& entry);
  void Add(const LedgerStopped& entry);
  void Add(const LedgerHeldOut& entry);

  DoneSet counted_;  // the batches in `done`
};

// The error of a run whose ledger names a last checkpoint although `directory` has none.
Error CheckpointsAreGone(const LedgerState& ledger, const std::string& directory);

class Ledger {
 public:
  // Opens the ledger in a directory, or creates an empty one. `*state` is the sum of its entries.
  // An incomplete last entry, as a power failure leaves it, is dropped. Errors name the directory
  // or file and the fault: damage and another format are kBadInput; a ledger that a scheduler
  // has open, and a disk without room, are kTryLater. `env`: the file system, which must outlive
  // the ledger; null: that of the machine.
  static Result<std::unique_ptr<Ledger>> Open(const std::string& directory, LedgerState* state,
                                              rocksdb::Env* env = nullptr);

  // Calls `entry` with all entries in order. Changes nothing on disk, and works while a scheduler
  // has the ledger open: the entries are then those of some moment during the call. Stops at the
  // first error of `entry` and returns it. Errors otherwise as Open(); a ledger that does not exist
  // is kBadInput.
  static Status ForEach(const std::string& directory,
                        const std::function<Status(uint64_t number, LedgerEntry entry)>& entry);
  static Result<std::vector<LedgerEntry>> Read(const std::string& directory);
  // Reads the last entry alone; nullopt: the ledger is empty. Errors are those of ForEach().
  static Result<std::optional<LedgerEntry>> Last(const std::string& directory);

  ~Ledger();

  // Appends all entries or none. REQUIRES that the first entry of a ledger is LedgerOpened. After
  // an error the disk's state is unknown. kTryLater: the disk has no room; the caller may repeat
  // the same call until there is room. After any other error every later Append() returns the same
  // error.
  Status Append(std::span<const LedgerEntry> entries);
  Status Append(const LedgerEntry& entry) { return Append({&entry, 1}); }
  // Makes all entries so far survive a crash of the machine. Errors as Append().
  Status Sync();
  uint64_t entries() const { return entries_; }
  // The longest that a sync has taken of late: each one forgets an eighth. 0: there was none.
  uint32_t sync_us() const;

 private:
  // Opens the database again after an Append() of `appended` entries, or a Sync() (0 entries),
  // found no room. The database then has all of the entries or none; entries() counts them if it
  // has them.
  Status Reopen(size_t appended);

  struct Impl;
  Ledger(std::unique_ptr<Impl> impl, uint64_t entries);
  std::unique_ptr<Impl> impl_;
  uint64_t entries_ = 0;
};

}  // namespace dslide
