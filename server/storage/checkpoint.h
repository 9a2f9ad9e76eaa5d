// Reading checkpoints: opens the shards on this machine and loads their rows into executors.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "server/executor/executor.h"
#include "server/storage/checkpoint_store.h"
#include "server/storage/row_database.h"

namespace dslide {

// The shards of one checkpoint, opened once for all executors of a process. Any thread may restore
// from them.
class CheckpointShards {
 public:
  // Opens the shards on this machine that the manifest names; their files must be complete. Without
  // a manifest (a server on another machine than the scheduler): the shards here of the latest
  // plan. Errors (kBadInput) name the file, what is wrong and the remedy.
  static Result<std::shared_ptr<const CheckpointShards>> Open(const std::string& directory);

  // The shard from which a server with these slots (ascending), which have `rows`, continues: the
  // one with the most of them. An empty directory if no shard has any, or if that shard is worn:
  // servers that never live until theirs is compacted would make it grow without an end.
  Result<CheckpointStore::Base> BaseFor(std::span<const SlotId> slots, uint64_t rows) const;

  // Fills an executor. Every row of its slots must be in some shard. If all of them are in `base`,
  // the executor's next snapshot contains only later changes.
  // An error (kTryLater) soon after `cancelled` has become true.
  Status Restore(Executor* executor, const CheckpointStore::Base& base = {},
                 const std::atomic<bool>* cancelled = nullptr) const;

  struct Content {
    uint64_t rows = 0;
    // The sum over all rows of a 64-bit mix of key, weights, optimiser state and hash codes: equal
    // for equal models, whatever the number of servers that wrote them.
    uint64_t checksum = 0;
  };
  // Reads all rows. Each row of the model must be present once, in the right size.
  Result<Content> CheckContent(const Config& config) const;

 private:
  struct Shard {
    std::string directory;  // full path
    std::unique_ptr<RowDatabase> database;
  };
  class RowCounts;

  Status Add(const std::string& name, const ManifestShard* listed);
  Status ReadRecords();
  Result<uint64_t> LoadLayer(const Shard& shard, const Layer& layer, Executor* executor,
                             const std::atomic<bool>* cancelled, RowCounts* counts) const;
  Status CheckComplete(const SlotMap& map, LayerKind layer, const RowCounts& counts) const;

  std::string directory_;
  std::vector<Shard> shards_;
  std::string absent_;                // shards that the manifest names but are not here
  std::vector<std::string> records_;  // of all executors of all shards
};

}  // namespace dslide
