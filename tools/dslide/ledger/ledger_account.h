// Recounts a run from the entries of its ledger: which batches count, and how often.
//
// Independent of LedgerState, which the scheduler uses, in order to check it. Going back to a
// checkpoint removes the batches counted after it; the remaining ones are the surviving history.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

class LedgerAccount {
 public:
  // `number` from 0. Errors (kBadInput): the ledger cannot be counted at all.
  Status Add(uint64_t number, const LedgerEntry& entry);

  // Samples of one epoch.
  struct EpochCount {
    uint64_t seen = 0;        // each once
    uint64_t duplicated = 0;  // counts beyond the first
    uint64_t missing = 0;     // samples of the epoch that did not count
    bool operator==(const EpochCount&) const = default;
  };
  // [train.epochs], or [epochs that have begun] if these are more; of a stream: [segments so far]
  std::vector<EpochCount> Epochs() const;
  // Of one epoch, or segment. REQUIRES one that Epochs() has.
  uint64_t BatchesOf(uint32_t epoch) const { return counts_[epoch].size(); }
  // 0: the run has no such batch.
  uint64_t SamplesOf(const BatchId& batch) const;

  // Whether a batch counts. REQUIRES a batch of the run.
  bool Counts(const BatchId& batch) const;

  const LedgerOpened& run() const { return run_; }
  const Config& config() const { return config_; }
  uint64_t entries() const { return entries_; }
  bool finished() const { return finished_; }
  uint32_t epochs_done() const { return epochs_done_; }
  uint32_t epochs() const { return static_cast<uint32_t>(counts_.size()); }  // as Epochs()
  uint64_t batches() const;                                                  // batches that count
  uint64_t batches_of_run() const;
  uint64_t numbers_of_run() const;  // one past the highest number of a batch
  uint32_t generations() const { return generations_; }
  uint32_t recoveries() const { return recoveries_; }    // plans that replaced one in force
  uint32_t checkpoints() const { return checkpoints_; }  // complete ones
  // Batches that counted when the ledger began, in a run that continues an earlier run.
  uint64_t inherited() const { return inherited_; }
  // The last LedgerRestored: its number and its checkpoint.
  uint64_t restored_at() const { return restored_at_; }
  const std::string& restored_from() const { return restored_from_; }
  // Errors in the ledger, one line each.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Repeat {
    BatchId batch;
    uint64_t number;  // of the entry
  };
  struct Complete {
    std::string checkpoint;
    uint64_t number;  // of the entry
  };

  Status Take(const LedgerOpened& entry);
  Status Take(const LedgerPlanned& entry);
  Status Take(const LedgerRestored& entry);
  Status Take(const LedgerCounted& entry);
  Status Take(const LedgerEpochDone& entry);
  Status Take(const LedgerCheckpointed& entry);
  Status Take(const LedgerStopped& entry);
  static Status Take(const LedgerHeldOut& entry);

  void FollowConfig(Config config);

  void GoBack(const LedgerRestored& entry);
  void Inherit(const LedgerRestored& entry);
  void ForgetRepeatsAfter(uint64_t number);
  // The number of epochs that are done or have a batch that counts.
  size_t EpochsBegun() const;
  bool InRun(const BatchId& batch) const;
  size_t InEpoch(const BatchId& batch) const;
  std::string Name(const BatchId& batch) const;
  void AddSegment(uint32_t number, uint64_t samples);
  void Problem(std::string what);

  LedgerOpened run_;
  Config opened_config_;  // without what plans change
  Config config_;
  uint64_t entries_ = 0;
  bool live_ = false;
  bool finished_ = false;
  uint32_t epochs_done_ = 0;
  uint32_t generations_ = 0;
  uint32_t recoveries_ = 0;
  uint32_t checkpoints_ = 0;
  uint64_t inherited_ = 0;
  uint64_t ever_counted_ = 0;
  uint64_t restored_at_ = 0;
  std::string restored_from_;
  std::vector<std::vector<bool>> counts_;  // [epochs][batches of an epoch]
  std::vector<uint64_t> samples_;          // [epochs]
  std::vector<Repeat> repeats_;            // of batches that count, in order
  std::vector<Complete> complete_;
  std::vector<std::string> problems_;
};

}  // namespace dslide
