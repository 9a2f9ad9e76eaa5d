#include "tools/dslide/ledger/ledger_account.h"
#include "common/config/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/plural.h"
#include "common/config/stored_config.h"
#include "common/run/batch_number.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"

namespace dslide {
namespace {

constexpr size_t kMaxProblems = 20;  // more would not help

}  // namespace

Status LedgerAccount::Add(uint64_t number, const LedgerEntry& entry) {
  DSLIDE_CHECK(number == entries_);
  DSLIDE_RETURN_IF_ERROR(std::visit([this](const auto& e) { return Take(e); }, entry));
  entries_++;
  return {};
}

Status LedgerAccount::Take(const LedgerOpened& entry) {
  Result<Config> config = ParseStoredConfig(entry.config, fmt::format("entry {}", entries_));
  DSLIDE_RETURN_IF_ERROR(config);
  const bool first = entries_ == 0;
  const TrainConfig& was = config_.train;
  const TrainConfig& is = config->train;
  if (!first && (entry.run != run_.run || entry.train_samples != run_.train_samples ||
                 is.batch != was.batch || is.unit_batches != was.unit_batches)) {
    return BadInput(fmt::format(
        "entry {}: the run goes on with other data or other batches; it cannot be counted",
        entries_));
  }
  if (!first && is.epochs > was.epochs) finished_ = false;
  run_ = entry;
  opened_config_ = *config;
  FollowConfig(*std::move(config));
  return {};
}

void LedgerAccount::FollowConfig(Config config) {
  config_ = std::move(config);
  if (config_.train.open_vocabulary) return;  // the plans tell of segments
  // Fewer epochs than have begun take nothing back.
  const size_t epochs = std::max<size_t>(config_.train.epochs, EpochsBegun());
  counts_.resize(epochs);
  samples_.assign(epochs, run_.train_samples);
  for (auto& epoch : counts_) epoch.resize(BatchesPerEpoch(config_.train, run_.train_samples));
}

size_t LedgerAccount::EpochsBegun() const {
  size_t begun = counts_.size();
  const auto counts = [&](size_t epoch) { return std::ranges::count(counts_[epoch], true) > 0; };
  while (begun > epochs_done_ && !counts(begun - 1)) --begun;
  return begun;
}

void LedgerAccount::AddSegment(uint32_t number, uint64_t samples) {
  if (samples_.size() < number) {
    samples_.resize(number);
    counts_.resize(number);
  }
  samples_[number - 1] = samples;
  counts_[number - 1].resize(BatchesPerEpoch(config_.train, samples));
}

Status LedgerAccount::Take(const LedgerPlanned& entry) {
  const ModelShape& shape = entry.plan.shape;
  if (shape.epoch > 0 && shape.samples > 0) AddSegment(shape.epoch, shape.samples);
  if (shape.epoch == 0) {
    Result<Config> config = ConfigUnder(entry.plan, opened_config_);
    if (!config.ok()) {
      return BadInput(fmt::format("entry {}: {}", entries_, config.error().message));
    }
    FollowConfig(*std::move(config));
  }
  if (live_ && GenerationOf(entry.plan) != entry.plan.version) return {};  // slots have moved
  generations_++;
  recoveries_ += live_;
  live_ = true;
  finished_ = false;
  return {};
}

Status LedgerAccount::Take(const LedgerRestored& entry) {
  const bool unknown = config_.train.open_vocabulary && entry.epoch > counts_.size();
  if (unknown && !entry.checkpoint.empty()) {
    return BadInput(fmt::format(
        "entry {}: goes on with segment {} of a stream whose beginning is in another ledger; it "
        "cannot be counted",
        entries_, entry.epoch + 1));
  }
  if (entry.epoch > counts_.size()) {
    return BadInput(fmt::format("entry {}: epoch {} of {}", entries_, entry.epoch, counts_.size()));
  }
  if (ever_counted_ == 0 && inherited_ == 0) {
    Inherit(entry);
  } else {
    GoBack(entry);
  }
  epochs_done_ = entry.epoch;
  restored_at_ = entries_;
  restored_from_ = entry.checkpoint;
  if (batches() != entry.batches) {
    Problem(fmt::format("says that {} count, but {} do", Plural(entry.batches, "batch", "batches"),
                        batches()));
  }
  return {};
}

// An earlier run's batches are accepted unchecked: that run's ledger is not here.
void LedgerAccount::Inherit(const LedgerRestored& entry) {
  for (uint32_t epoch = 0; epoch < entry.epoch; ++epoch) {
    counts_[epoch].assign(counts_[epoch].size(), true);
  }
  for (const DoneBatch& done : entry.done) {
    const BatchId batch{entry.epoch, done.unit, done.index};
    if (!InRun(batch)) {
      Problem(fmt::format("goes back to {}, which the run does not have", Name(batch)));
    } else if (!Counts(batch)) {
      counts_[batch.epoch][InEpoch(batch)] = true;
    }
  }
  inherited_ = batches();
}

void LedgerAccount::GoBack(const LedgerRestored& entry) {
  const auto was = std::exchange(counts_, std::vector<std::vector<bool>>(counts_.size()));
  for (size_t epoch = 0; epoch < was.size(); ++epoch) {
    counts_[epoch].resize(was[epoch].size());
    if (epoch < entry.epoch) counts_[epoch] = was[epoch];
  }
  for (const DoneBatch& done : entry.done) {
    const BatchId batch{entry.epoch, done.unit, done.index};
    if (!InRun(batch) || !was[batch.epoch][InEpoch(batch)]) {
      Problem(fmt::format("goes back to {}, which did not count", Name(batch)));
    } else {
      counts_[batch.epoch][InEpoch(batch)] = true;
    }
  }
  // If the ledger does not know the checkpoint, the checkpoint may contain all repeats.
  uint64_t complete_at = entry.checkpoint.empty() ? 0 : entries_;
  for (const Complete& c : complete_) {
    if (c.checkpoint == entry.checkpoint) complete_at = c.number;
  }
  ForgetRepeatsAfter(complete_at);
}

void LedgerAccount::ForgetRepeatsAfter(uint64_t number) {
  std::erase_if(repeats_, [&](const Repeat& r) { return r.number > number || !Counts(r.batch); });
}

Status LedgerAccount::Take(const LedgerCounted& entry) {
  ever_counted_++;
  if (!InRun(entry.batch)) {
    Problem(fmt::format("counts {}, which the run does not have", Name(entry.batch)));
    return {};
  }
  const uint64_t samples = SamplesOf(entry.batch);
  if (entry.samples != samples) {
    Problem(fmt::format("counts {} with {}; it has {}", Name(entry.batch),
                        Plural(entry.samples, "sample"), samples));
  }
  if (entry.batch.epoch > epochs_done_) {
    Problem(fmt::format("counts {}, an epoch that has not begun", Name(entry.batch)));
  }
  if (Counts(entry.batch)) repeats_.push_back({entry.batch, entries_});
  counts_[entry.batch.epoch][InEpoch(entry.batch)] = true;
  return {};
}

Status LedgerAccount::Take(const LedgerEpochDone& entry) {
  if (entry.epochs != epochs_done_ + 1) {
    Problem(fmt::format("says that {} are done, after {}", Plural(entry.epochs, "epoch"),
                        epochs_done_));
  }
  epochs_done_ = std::min(entry.epochs, static_cast<uint32_t>(counts_.size()));
  return {};
}

Status LedgerAccount::Take(const LedgerCheckpointed& entry) {
  checkpoints_++;
  complete_.push_back({entry.checkpoint, entries_});
  return {};
}

Status LedgerAccount::Take(const LedgerHeldOut&) { return {}; }

Status LedgerAccount::Take(const LedgerStopped& entry) {
  live_ = false;
  finished_ = entry.finished;
  return {};
}

std::vector<LedgerAccount::EpochCount> LedgerAccount::Epochs() const {
  std::vector<EpochCount> epochs(counts_.size());
  const uint64_t batch = config_.train.batch;
  for (size_t e = 0; e < counts_.size(); ++e) {
    for (size_t b = 0; b < counts_[e].size(); ++b) {
      if (counts_[e][b]) epochs[e].seen += std::min(batch, samples_[e] - b * batch);
    }
    epochs[e].missing = samples_[e] - epochs[e].seen;
  }
  for (const Repeat& repeat : repeats_) {
    epochs[repeat.batch.epoch].duplicated += SamplesOf(repeat.batch);
  }
  return epochs;
}

bool LedgerAccount::Counts(const BatchId& batch) const {
  return counts_[batch.epoch][InEpoch(batch)];
}

uint64_t LedgerAccount::batches() const {
  uint64_t batches = 0;
  for (const auto& epoch : counts_) {
    batches += static_cast<uint64_t>(std::count(epoch.begin(), epoch.end(), true));
  }
  return batches;
}

uint64_t LedgerAccount::batches_of_run() const {
  uint64_t batches = 0;
  for (const auto& epoch : counts_) batches += epoch.size();
  return batches;
}

uint64_t LedgerAccount::numbers_of_run() const {
  return counts_.size() * BatchesPerEpoch(config_.train, run_.train_samples);
}

uint64_t LedgerAccount::SamplesOf(const BatchId& batch) const {
  if (batch.epoch >= samples_.size()) return 0;
  TrainConfig train = config_.train;
  if (train.open_vocabulary) train.epoch_samples = static_cast<uint32_t>(samples_[batch.epoch]);
  return dslide::SamplesOf(batch, train, run_.train_samples);
}

bool LedgerAccount::InRun(const BatchId& batch) const { return SamplesOf(batch) > 0; }

size_t LedgerAccount::InEpoch(const BatchId& batch) const {
  return NumberInPass(batch.unit, batch.index, config_.train.unit_batches);
}

std::string LedgerAccount::Name(const BatchId& batch) const {
  return fmt::format("batch {} of unit {} of epoch {}", batch.index, batch.unit, batch.epoch + 1);
}

void LedgerAccount::Problem(std::string what) {
  if (problems_.size() < kMaxProblems) {
    problems_.push_back(fmt::format("entry {} {}", entries_, what));
  }
}

}  // namespace dslide
