#include <fmt/core.h>

#include "server/executor/state/executor_record.h"
#include "server/storage/row_database.h"
#include "server/storage/stored_keys.h"
#include "tools/dslide/ledger/ledger_check.h"

namespace dslide {
namespace {

// Adds the groups of all records in a shard.
Status AddGroups(const std::string& shard, std::vector<AppliedBatches::Group>* groups) {
  const auto database = RowDatabase::OpenForReading(shard);
  if (!database.ok()) return BadInput(database.error().message);
  RowDatabase::Cursor at = (*database)->NewCursor(RowDatabase::Reading::kPoints);
  for (at.Seek(View(EncodeRecordKey(0))); at.Valid(); at.Next()) {
    const std::span<const uint8_t> value = at.value();
    Result<ExecutorRecord> record =
        ExecutorRecord::Decode({reinterpret_cast<const char*>(value.data()), value.size()});
    if (!record.ok()) return BadInput(fmt::format("{}: {}", shard, record.error().message));
    for (AppliedBatches::Group& group : record->applied) groups->push_back(std::move(group));
  }
  if (const Status read = at.status(); !read.ok()) return BadInput(read.error().message);
  return {};
}

}  // namespace

Result<CheckpointRecords> ReadCheckpointRecords(const std::string& directory) {
  Result<Manifest> manifest = ReadManifest(directory);
  DSLIDE_RETURN_IF_ERROR(manifest);
  CheckpointRecords records{std::move(*manifest), {}};
  for (const ManifestShard& shard : records.manifest.shards) {
    DSLIDE_RETURN_IF_ERROR(AddGroups(directory + "/" + shard.directory, &records.groups));
  }
  return records;
}

}  // namespace dslide
