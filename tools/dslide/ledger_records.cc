#include <fmt/core.h>

#include "server/checkpoint_store.h"
#include "server/executor_record.h"
#include "tools/dslide/ledger_audit.h"

namespace dslide {
namespace {

constexpr auto kRecords = static_cast<LayerKind>(2);

// Adds the groups of all records in a shard.
Status AddGroups(const std::string& shard, uint32_t slots,
                 std::vector<AppliedBatches::Group>* groups) {
  const auto reader = CheckpointReader::Open(shard);
  if (!reader.ok()) return BadInput(reader.error().message);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    const auto read = (*reader)->ForEachRow(
        kRecords, SlotId{slot}, [&](uint32_t, std::span<const uint8_t> value) -> Status {
          Result<ExecutorRecord> record =
              ExecutorRecord::Decode({reinterpret_cast<const char*>(value.data()), value.size()});
          if (!record.ok()) return BadInput(fmt::format("{}: {}", shard, record.error().message));
          for (AppliedBatches::Group& group : record->applied) groups->push_back(std::move(group));
          return {};
        });
    if (!read.ok()) return BadInput(read.error().message);
  }
  return {};
}

}  // namespace

Result<CheckpointRecords> ReadCheckpointRecords(const std::string& directory) {
  Result<Manifest> manifest = ReadManifest(directory);
  DSLIDE_RETURN_IF_ERROR(manifest);
  const Result<Config> config = ParseConfig(manifest->config, directory + "/manifest");
  DSLIDE_RETURN_IF_ERROR(config);
  CheckpointRecords records{std::move(*manifest), {}};
  for (const ManifestShard& shard : records.manifest.shards) {
    DSLIDE_RETURN_IF_ERROR(
        AddGroups(directory + "/" + shard.directory, config->cluster.slots, &records.groups));
  }
  return records;
}

}  // namespace dslide
