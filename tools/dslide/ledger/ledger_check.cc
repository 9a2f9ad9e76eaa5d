#include "tools/dslide/ledger/ledger_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/plural.h"
#include "common/run/batch_number.h"
#include "common/run/step.h"

namespace dslide {
namespace {

using Group = AppliedBatches::Group;

constexpr size_t kMaxListed = 20;  // more would not help

class RecordsCheck {
 public:
  RecordsCheck(const LedgerAccount& account, const CheckpointRecords& records, LedgerCheck* check)
      : account_(account),
        records_(records),
        manifest_(records.manifest),
        train_(account.config().train),
        train_samples_(account.run().train_samples),
        check_(check) {}

  void Run() {
    check_->checkpoint = manifest_.name;
    if (!Fits()) return;
    CheckSlots();
    CheckBatchesOfRun();
    for (uint32_t epoch = 0; epoch < manifest_.epoch; ++epoch) {
      for (uint64_t n = 0; n < account_.BatchesOf(epoch); ++n) {
        CheckBatch(BatchAt(epoch, n));
      }
    }
    for (const DoneBatch& done : manifest_.done) {
      const BatchId batch{manifest_.epoch, done.unit, done.index};
      if (account_.SamplesOf(batch) > 0) {
        CheckBatch(batch);
      } else {
        Problem(fmt::format("has a batch that the run does not have: {}", Name(batch)));
      }
    }
  }

 private:
  // Whether the checkpoint belongs to this run and its surviving history.
  bool Fits() {
    if (manifest_.run != account_.run().run || manifest_.train_samples != train_samples_ ||
        manifest_.epoch > account_.epochs()) {
      Problem("is of another run");
      return false;
    }
    if (manifest_.ledger_position > account_.entries()) {
      Problem(fmt::format("was cut after {} of the ledger, which has {}: some are lost",
                          Plural(manifest_.ledger_position, "entry", "entries"),
                          account_.entries()));
    }
    const bool other = account_.restored_at() >= manifest_.ledger_position &&
                       account_.restored_from() != manifest_.name;
    if (other) {
      Problem(fmt::format(
          "is none of the surviving history, which goes on from {}",
          account_.restored_from().empty() ? "the beginning" : account_.restored_from()));
      return false;
    }
    return true;
  }

  // Every slot must be in exactly one group.
  void CheckSlots() {
    std::vector<std::vector<const Group*>> groups_of(account_.config().cluster.slots);
    for (const Group& group : records_.groups) {
      for (const SlotId slot : group.slots) {
        if (slot.value < groups_of.size()) {
          groups_of[slot.value].push_back(&group);
        } else {
          Problem(fmt::format("has a record of slot {} of {}", slot.value, groups_of.size()));
        }
      }
    }
    for (size_t slot = 0; slot < groups_of.size(); ++slot) {
      if (groups_of[slot].empty()) {
        Problem(fmt::format("has no record of slot {}", slot));
        complete_ = false;
      } else if (groups_of[slot].size() > 1) {
        Problem(fmt::format("has {} records of slot {}", groups_of[slot].size(), slot));
        if (groups_.size() < kMaxListed) groups_.push_back(groups_of[slot]);
      }
    }
  }

  void CheckBatchesOfRun() {
    const uint64_t batches = account_.numbers_of_run();
    for (const Group& group : records_.groups) {
      for (const BatchSet& set : group.batches) {
        if (!set.words().empty() && LastOf(set) >= batches) {
          Problem(fmt::format("slot {} has taken batch number {} of {}", group.slots[0].value,
                              LastOf(set), batches));
        }
      }
    }
  }

  // Checks a batch that counts in the checkpoint.
  void CheckBatch(const BatchId& batch) {
    const uint64_t number = BatchNumber(batch, train_, train_samples_);
    const uint64_t samples = account_.SamplesOf(batch);
    const bool counts = account_.Counts(batch);
    LedgerAccount::EpochCount& epoch = check_->epochs[batch.epoch];
    const bool lacks = !complete_ || std::any_of(records_.groups.begin(), records_.groups.end(),
                                                 [&](const Group& g) { return Lacks(g, number); });
    if (!counts) Problem(fmt::format("counts {}, the ledger does not", Name(batch)));
    if (lacks && complete_) Problem(fmt::format("lacks a part of {} in some slot", Name(batch)));
    if (lacks) check_->lacking++;
    if (lacks && counts) {
      epoch.seen -= samples;
      epoch.missing += samples;
    }
    const bool twice = std::any_of(groups_.begin(), groups_.end(), [&](const auto& groups) {
      return std::count_if(groups.begin(), groups.end(),
                           [&](const Group* g) { return !Lacks(*g, number); }) > 1;
    });
    if (twice) epoch.duplicated += samples;
  }

  static bool Lacks(const Group& group, uint64_t number) {
    return !std::all_of(group.batches.begin(), group.batches.end(),
                        [&](const BatchSet& set) { return set.Has(number); });
  }

  static uint64_t LastOf(const BatchSet& set) {
    uint64_t last = 64 * set.words().size() - 1;
    while (!set.Has(last)) --last;
    return last;
  }

  BatchId BatchAt(uint32_t epoch, uint64_t in_epoch) const {
    const UnitPlace place = PlaceInUnit(in_epoch, train_.unit_batches);
    return {epoch, place.unit, place.index};
  }

  static std::string Name(const BatchId& batch) {
    return fmt::format("batch {} of unit {} of epoch {}", batch.index, batch.unit, batch.epoch + 1);
  }

  void Problem(const std::string& what) {
    if (check_->problems.size() < kMaxListed) {
      check_->problems.push_back(fmt::format("checkpoint {}: {}", manifest_.name, what));
    }
  }

  const LedgerAccount& account_;
  const CheckpointRecords& records_;
  const Manifest& manifest_;
  const TrainConfig& train_;
  uint64_t train_samples_;
  LedgerCheck* check_;
  bool complete_ = true;                           // every slot has a record
  std::vector<std::vector<const Group*>> groups_;  // of each slot in several groups
};

}  // namespace

LedgerCheck CheckLedger(const LedgerAccount& account,
                        const std::optional<CheckpointRecords>& records) {
  LedgerCheck check;
  check.epochs = account.Epochs();
  check.problems = account.problems();
  // Samples can be missing only in the epochs that are done, or in all of a finished run.
  const TrainConfig& train = account.config().train;
  const size_t wanted = train.open_vocabulary ? check.epochs.size() : train.epochs;
  const size_t due =
      account.finished() ? std::max<size_t>(wanted, account.epochs_done()) : account.epochs_done();
  for (size_t e = due; e < check.epochs.size(); ++e) check.epochs[e].missing = 0;
  if (records) {
    RecordsCheck(account, *records, &check).Run();
  } else if (account.finished()) {
    check.problems.push_back("there is no checkpoint of a finished run");
  }
  const uint64_t saved = records ? records->manifest.batches : 0;
  check.unsaved = account.batches() - std::min(account.batches(), saved);
  for (const LedgerAccount::EpochCount& epoch : check.epochs) {
    check.seen += epoch.seen;
    check.duplicated += epoch.duplicated;
    check.missing += epoch.missing;
  }
  return check;
}

}  // namespace dslide
