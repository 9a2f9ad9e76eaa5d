// The state that a ledger's entries add up to.
#include "scheduler/ledger/ledger.h"

#include <fmt/core.h>

namespace dslide {

const std::string& ContributorOf(const LedgerCounted& entry) {
  return entry.key.empty() ? entry.worker : entry.key;
}

void LedgerState::Add(const LedgerOpened& entry) {
  opened = true;
  run = entry;
}

void LedgerState::Add(const LedgerPlanned& entry) {
  plan = entry.plan;
  live = true;
  finished = false;
}

void LedgerState::Add(const LedgerRestored& entry) {
  epoch = entry.epoch;
  batches = entry.batches;
  samples = entry.samples;
  done = entry.done;
  last_checkpoint = entry.checkpoint;
  counted_.Clear();
  for (const DoneBatch& batch : done) counted_.Insert(batch);
}

void LedgerState::Add(const LedgerCounted& entry) {
  contributions.Add(ContributorOf(entry), entry.day, entry.samples);
  if (entry.batch.epoch != epoch || Counts(entry.batch)) return;
  const DoneBatch batch{entry.batch.unit, entry.batch.index};
  counted_.Insert(batch);
  done.push_back(batch);
  batches++;
  samples += entry.samples;
}

void LedgerState::Add(const LedgerEpochDone& entry) {
  epoch = entry.epochs;
  done.clear();
  counted_.Clear();
}

void LedgerState::Add(const LedgerCheckpointed& entry) { last_checkpoint = entry.checkpoint; }

void LedgerState::Add(const LedgerStopped& entry) {
  live = false;
  finished = entry.finished;
}

void LedgerState::Add(const LedgerHeldOut& entry) {
  std::erase_if(held_out, [&](const LedgerHeldOut& e) { return e.epochs >= entry.epochs; });
  held_out.push_back(entry);
}

void LedgerState::Apply(const LedgerEntry& entry) {
  std::visit([this](const auto& e) { Add(e); }, entry);
  entries++;
}

Error CheckpointsAreGone(const LedgerState& ledger, const std::string& directory) {
  return BadInput(
      fmt::format("{} is gone from {}, and so is every other checkpoint of this run; put one back, "
                  "or begin again in another --run-dir",
                  ledger.last_checkpoint, directory));
}

bool LedgerState::Counts(const BatchId& batch) const {
  if (batch.epoch != epoch) return batch.epoch < epoch;
  return counted_.Contains({batch.unit, batch.index});
}

}  // namespace dslide
