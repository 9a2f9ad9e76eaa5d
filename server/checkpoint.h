// An executor's rows to and from checkpoints.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "server/checkpoint_store.h"
#include "server/executor.h"

namespace dslide {

// Writes all rows and hash codes. Executors of one server may write at once.
void SaveExecutor(Executor& executor, CheckpointWriter* writer);

// The shards of a checkpoint that this machine has, opened. A server needs only those with its
// slots.
class CheckpointShards {
 public:
  static Result<CheckpointShards> Open(const std::string& directory);

  // Fills an executor: every row of its slots must be there, whichever shard holds it.
  Status Restore(Executor* executor) const;

 private:
  std::string directory_;
  std::vector<std::unique_ptr<CheckpointReader>> readers_;
};

}  // namespace dslide
