// The checkpoint that a server's executors begin from. They share its shards: the first executor
// opens them, the last one closes them.
//
// Called by the executors' threads, each once.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/executor/job.h"
#include "server/storage/checkpoint.h"
#include "server/storage/checkpoint_store.h"

namespace dslide {

class CheckpointSource final : public StateSource {
 public:
  // `slots`: of each executor; they have `rows` in all.
  CheckpointSource(std::string directory, std::vector<std::vector<SlotId>> slots, uint64_t rows);

  Status Load(Executor* executor) override;
  // Loads in progress end soon, with an error. Any thread.
  void Cancel() { cancelled_ = true; }

  // The shard that the server's own checkpoints go on from. REQUIRES that an executor has loaded.
  const CheckpointStore::Base& base() const { return base_; }

 private:
  Status Open();

  std::atomic<bool> cancelled_ = false;
  const std::string directory_;
  const std::vector<std::vector<SlotId>> slots_;
  const uint64_t rows_;
  std::once_flag once_;
  Status opened_;
  std::shared_ptr<const CheckpointShards> shards_;
  CheckpointStore::Base base_;
  std::atomic<size_t> left_;  // executors that have not loaded yet
};

}  // namespace dslide
