#include "tests/simulation/world/oracles.h"

#include "common/run/batch_number.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "server/executor/state/executor_record.h"

namespace dslide::sim {
namespace {

LayerKind LayerOf(Part part) {
  return part == Part::kOutput ? LayerKind::kOutput : LayerKind::kInput;
}

}  // namespace

void Oracles::Violated(std::string line) {
  trace_.Note("ORACLE", "{}", line);
  violations_.push_back(std::move(line));
}

// The numbers of the batches of all epochs before `epoch`, and of those done in `epoch`.
Oracles::BatchNumbers Oracles::Claimed(uint32_t epoch, const std::vector<DoneBatch>& done) const {
  BatchNumbers numbers;
  for (uint64_t n = 0; n < epoch * EpochBatches(); ++n) numbers.insert(n);
  for (const DoneBatch& batch : done) {
    numbers.insert(
        BatchNumber({epoch, batch.unit, batch.index}, setup_.config.train, setup_.trained()));
  }
  return numbers;
}

void Oracles::ManifestWritten(const std::string& directory, const SimCheckpoint& checkpoint) {
  const Manifest& manifest = *checkpoint.manifest;
  const auto [known, is_new] = manifests_.emplace(manifest.name, manifest);
  if (!is_new) Violated(directory + ": its manifest was written over");
  const BatchNumbers claimed = Claimed(manifest.epoch, manifest.done);
  if (claimed.size() != manifest.batches) {
    Violated(fmt::format("{}: the manifest has {} batches, but names {}", directory,
                         manifest.batches, claimed.size()));
  }
  CheckRows(directory, checkpoint);
  for (const ManifestShard& shard : manifest.shards) {
    const auto found = checkpoint.shards.find(shard.directory);
    if (found == checkpoint.shards.end()) continue;  // reported by CheckRows()
    CheckApplied(directory + "/" + shard.directory, found->second, claimed);
  }
}

// Checks that the shards that the manifest names have each row of the model once.
void Oracles::CheckRows(const std::string& directory, const SimCheckpoint& checkpoint) {
  size_t rows = 0;
  std::set<StoredRowKey> keys;
  for (const ManifestShard& shard : checkpoint.manifest->shards) {
    const auto found = checkpoint.shards.find(shard.directory);
    if (found == checkpoint.shards.end()) {
      Violated(
          fmt::format("{}: the manifest names {}, which is not there", directory, shard.directory));
      continue;
    }
    for (const auto& [key, value] : found->second.rows) keys.insert(key);
    rows += found->second.rows.size();
  }
  const ModelConfig& model = setup_.config.model;
  const size_t expected = size_t{model.features} + 1 + model.labels;
  if (rows != expected || keys.size() != expected) {
    Violated(fmt::format("{}: {} rows of {} ids, the model has {}", directory, rows, keys.size(),
                         expected));
  }
}

// Asynchronous training: checks that each shard has both parts of all batches that the manifest
// claims, and that its record of applied batches agrees with the observed changes of its rows.
void Oracles::CheckApplied(const std::string& directory, const SimShard& shard,
                           const BatchNumbers& claimed) {
  if (IsSynchronous(setup_.config.train)) return;
  for (const std::string& bytes : shard.records) {
    const Result<ExecutorRecord> record = ExecutorRecord::Decode(bytes);
    if (!record.ok()) return Violated(directory + ": " + record.error().message);
    for (const AppliedBatches::Group& group : record->applied) {
      for (const Part part : {Part::kOutput, Part::kInput}) {
        const BatchSet& applied = group.batches[static_cast<size_t>(part)];
        for (const uint64_t batch : claimed) {
          if (applied.Has(batch)) continue;
          Violated(fmt::format("{}: batch {} counts, but slot {} lacks its part for layer {}",
                               directory, batch, group.slots[0].value,
                               static_cast<int>(LayerOf(part))));
        }
        const ClusterConfig& cluster = setup_.config.cluster;
        const SlotRange rows = part == Part::kInput ? InputSlots(cluster) : OutputSlots(cluster);
        for (const SlotId slot : group.slots) {
          if (!rows.Has(slot)) continue;  // it has taken this part with the other one
          const auto seen = shard.shadow.find({LayerOf(part), slot});
          for (uint64_t batch = 0; batch < setup_.batches(); ++batch) {
            const bool was = seen != shard.shadow.end() && seen->second.contains(batch);
            if (applied.Has(batch) == was) continue;
            Violated(fmt::format("{}: slot {} of layer {} is said {} batch {}, but was seen {}",
                                 directory, slot.value, static_cast<int>(LayerOf(part)),
                                 was ? "not to have" : "to have", batch,
                                 was ? "to take it" : "not to take it"));
          }
        }
      }
    }
  }
}

void Oracles::Planned(const Plan& plan) {
  if (plan.version <= plan_version_) {
    Violated(fmt::format("plan {} came after plan {}", plan.version, plan_version_));
  }
  plan_version_ = plan.version;
  generation_ = GenerationOf(plan);
}

void Oracles::Counted(const BatchId& batch, Incarnation worker, uint32_t plan_version) {
  if (plan_version > plan_version_ || plan_version < generation_) {
    Violated(fmt::format("{} of plan {} counted under plan {}", NameOf(batch), plan_version,
                         plan_version_));
  }
  if (fenced_.contains(worker)) {
    Violated(fmt::format("{} of a worker that counts as dead was counted", NameOf(batch)));
  }
}

void Oracles::Recount(const std::vector<LedgerEntry>& ledger, bool finished) {
  BatchNumbers counted;
  const auto complete = [&](uint32_t epochs) {
    return counted.size() >= epochs * EpochBatches() &&
           (epochs == 0 ||
            std::distance(counted.begin(), counted.lower_bound(epochs * EpochBatches())) ==
                static_cast<ptrdiff_t>(epochs * EpochBatches()));
  };
  for (const LedgerEntry& entry : ledger) {
    if (const auto* restored = std::get_if<LedgerRestored>(&entry)) {
      counted = Claimed(restored->epoch, restored->done);
      const auto manifest = manifests_.find(restored->checkpoint);
      if (restored->checkpoint.empty() ? !counted.empty() : manifest == manifests_.end()) {
        Violated("ledger: went back to checkpoint '" + restored->checkpoint +
                 "', which is not complete");
      } else if (!restored->checkpoint.empty() &&
                 counted != Claimed(manifest->second.epoch, manifest->second.done)) {
        Violated("ledger: what counts after the restore is not what the checkpoint has");
      }
      if (counted.size() != restored->batches) Violated("ledger: a restore has a wrong sum");
    } else if (const auto* count = std::get_if<LedgerCounted>(&entry)) {
      const uint64_t number = BatchNumber(count->batch, setup_.config.train, setup_.trained());
      if (SamplesOf(count->batch, setup_.config.train, setup_.trained()) != count->samples) {
        Violated(fmt::format("ledger: batch {} counts with {} samples", number, count->samples));
      }
      if (!counted.insert(number).second) {
        Violated(fmt::format("ledger: batch {} counts twice", number));
      }
    } else if (const auto* done = std::get_if<LedgerEpochDone>(&entry)) {
      if (!complete(done->epochs)) {
        Violated(fmt::format("ledger: epoch {} ended with batches missing", done->epochs));
      }
    } else if (const auto* saved = std::get_if<LedgerCheckpointed>(&entry)) {
      if (!manifests_.contains(saved->checkpoint)) {
        Violated("ledger: checkpoint " + saved->checkpoint + " has no manifest");
      }
    }
  }
  if (finished && counted.size() != setup_.batches()) {
    Violated(
        fmt::format("ledger: {} of {} batches count at the end", counted.size(), setup_.batches()));
  }
}

}  // namespace dslide::sim
