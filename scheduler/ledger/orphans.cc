#include "scheduler/ledger/orphans.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/base/process.h"
#include "common/checkpoint/file_checksum.h"
#include "common/checkpoint/layout.h"
#include "common/config/stored_config.h"
#include "common/run/slot_plan.h"
#include "common/run/slot_rows.h"
#include "common/run/step.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

Result<ManifestShard> DescribeShard(const fs::path& directory, const LedgerState& ledger,
                                    uint32_t index, const Config& config) {
  ManifestShard shard;
  shard.directory = directory.filename();
  shard.server = ledger.plan.servers[index].name;
  shard.rows = RowsOfSlots(config, SlotsOf(ledger.plan, {index}));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const Result<uint64_t> checksum = FileChecksum(entry.path());
    DSLIDE_RETURN_IF_ERROR(checksum);
    shard.files.push_back({entry.path().filename(), entry.file_size(error), *checksum});
    shard.bytes += shard.files.back().bytes;
  }
  if (error) {
    return Failed(fmt::format("{}: cannot list: {}", directory.string(), error.message()));
  }
  std::sort(shard.files.begin(), shard.files.end(),
            [](const ShardFile& a, const ShardFile& b) { return a.name < b.name; });
  return shard;
}

// Whether nothing counts but whole epochs without fixed sizes, all of whose steps the servers have
// committed. The last one may be short: then they stand before the first step of the next one until
// that begins.
bool AtEndOfEpoch(const LedgerState& ledger, const TrainConfig& train, uint64_t committed) {
  const ModelShape& shape = ledger.plan.shape;
  if (shape.epoch == 0 || shape.epoch != ledger.epoch || !ledger.done.empty()) return false;
  const uint64_t before =
      uint64_t{ledger.epoch - 1} * StepsPerEpoch(train, ledger.run.train_samples);
  return committed == before + StepsPerEpoch(train, shape.samples);
}

// The manifest without its shards; nullopt if the steps do not fit the ledger's epoch.
std::optional<Manifest> AccountOf(const LedgerState& ledger, const Config& config,
                                  uint64_t committed, uint64_t preprocessor) {
  Manifest manifest;
  manifest.preprocessor = preprocessor;
  manifest.run = ledger.run.run;
  manifest.config = FormatConfig(config);
  manifest.shape_epoch = ledger.plan.shape.epoch;
  manifest.epoch = ledger.epoch;
  manifest.train_samples = ledger.run.train_samples;
  manifest.ledger_position = ledger.entries;
  manifest.batches = ledger.batches;
  manifest.samples = ledger.samples;
  manifest.done = ledger.done;
  if (IsSynchronous(config.train)) {
    const uint64_t samples = ledger.run.train_samples;
    const uint64_t first = ledger.epoch * StepsPerEpoch(config.train, samples);
    if (committed < first && !AtEndOfEpoch(ledger, config.train, committed)) return std::nullopt;
    std::erase_if(manifest.done, [&](const DoneBatch& b) {
      const BatchId batch{ledger.epoch, b.unit, b.index};
      if (StepOf(batch, config.train, samples) < committed) return false;
      manifest.batches--;
      manifest.samples -= SamplesOf(batch, config.train, samples);
      return true;
    });
  }
  manifest.name = CheckpointName(manifest.batches);
  return manifest;
}

Status Adopt(const LedgerState& ledger, const fs::path& orphan, uint64_t committed,
             uint64_t preprocessor) {
  Result<Config> config = ParseStoredConfig(ledger.run.config, "the ledger's configuration");
  DSLIDE_RETURN_IF_ERROR(config);
  config = ConfigUnder(ledger.plan, *config);
  DSLIDE_RETURN_IF_ERROR(config);
  std::optional<Manifest> manifest = AccountOf(ledger, *config, committed, preprocessor);
  if (!manifest) return {};
  std::error_code error;
  for (uint32_t i = 0; i < ledger.plan.servers.size(); ++i) {
    if (SlotsOf(ledger.plan, {i}).empty()) continue;  // it has nothing to write
    const fs::path shard = orphan / ShardName(ledger.plan.version, i);
    if (!fs::is_directory(shard, error)) return {};
    Result<ManifestShard> described = DescribeShard(shard, ledger, i, *config);
    DSLIDE_RETURN_IF_ERROR(described);
    manifest->shards.push_back(std::move(*described));
  }
  const fs::path checkpoint = orphan.parent_path() / manifest->name;
  if (HasManifest(checkpoint)) return {};  // a checkpoint of exactly these batches exists
  fs::remove_all(checkpoint, error);       // an unfinished one
  fs::rename(orphan, checkpoint, error);
  if (error) {
    return Failed(fmt::format("{}: cannot rename to {}: {}", orphan.string(), manifest->name,
                              error.message()));
  }
  manifest->written_s = static_cast<uint64_t>(SecondsSince1970());
  return WriteManifest(checkpoint, *manifest);
}

}  // namespace

Status AdoptOrphans(const LedgerState& ledger, const std::string& directory,
                    uint64_t preprocessor) {
  std::vector<std::pair<fs::path, Orphan>> orphans;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (const auto name = ParseOrphanName(entry.path().filename())) {
      orphans.emplace_back(entry.path(), *name);
    }
  }
  for (const auto& [path, name] : orphans) {
    if (name.plan_version < ledger.plan.version) fs::remove_all(path, error);
    if (name.plan_version != ledger.plan.version) continue;
    DSLIDE_RETURN_IF_ERROR(Adopt(ledger, path, name.committed, preprocessor));
  }
  return {};
}

}  // namespace dslide
