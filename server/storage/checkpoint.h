// Reading checkpoints: the shards that a machine has, and their rows into executors.
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
// from it.
class CheckpointShards {
 public:
  // Those that the checkpoint's manifest names and that are here, whose files must be complete. A
  // server on another machine than the scheduler has no manifest: then the shards of the latest
  // plan that are here. Errors (kBadInput) name the file, what is wrong and the mend.
  static Result<std::shared_ptr<const CheckpointShards>> Open(const std::string& directory);

  // The shard to go on from for a server with these slots (ascending): the one with the most of
  // them. No directory if none has any.
  Result<CheckpointStore::Base> BaseFor(std::span<const SlotId> slots) const;

  // Fills an executor: every row of its slots must be there, whichever shard holds it. If all are
  // in `base`, its next snapshot goes on from there.
  Status Restore(Executor* executor, const CheckpointStore::Base& base = {}) const;

  struct Content {
    uint64_t rows = 0;
    // The sum over all rows of a 64-bit mix of key, weights, optimiser state and hash codes: equal
    // for equal models, however many servers have written them.
    uint64_t checksum = 0;
  };
  // Reads all rows; each of the model's must be there once, of the right size.
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
                             RowCounts* counts) const;
  Status CheckComplete(const SlotMap& map, LayerKind layer, const RowCounts& counts) const;

  std::string directory_;
  std::vector<Shard> shards_;
  std::string absent_;                // shards that the manifest names and that are not here
  std::vector<std::string> records_;  // of all executors of all shards
};

}  // namespace dslide
