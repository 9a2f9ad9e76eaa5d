// A server's loading and saving: what its core asks for, done by its executors and its store.
//
// One object for each load. A save: every executor marks its snapshot (a job), the executors put
// rows to the store between their other jobs, and the store's outcome is the save's. If a part
// fails, the executors count their rows as changed again before the core learns the outcome.
//
// Invariant: executors give up and the store collects only while a save is under way.
// Owned by the network thread. Must outlive the pool whose executors it serves.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/core/effects.h"
#include "server/executor/executor_pool.h"
#include "server/storage/checkpoint_source.h"
#include "server/storage/checkpoint_store.h"

namespace dslide {

class ServerStorage {
 public:
  ServerStorage(const ServerLoad& load, CheckpointStore::Place place);

  // Fills the pool's executors from the load's checkpoint or seed.
  void StartLoad(ExecutorPool* pool);

  // REQUIRES that every executor has loaded and no save is under way.
  void StartSave(const ServerSave& save, ExecutorPool* pool);
  // Takes an executor's part of a save. False: it is of something else.
  bool Take(const ExecutorPool::Outcome& outcome);
  // Goes on with a save; its outcome once it is there.
  std::optional<CheckpointStore::Saved> Advance(ExecutorPool* pool);
  // Readable when there is something to advance for; -1: never yet.
  int fd() const { return store_ ? store_->fd() : -1; }

 private:
  // The save under way.
  struct Saving {
    uint64_t ticket = 0;
    uint32_t marks_missing = 0;
    uint32_t aborts_missing = 0;  // of the executors that were told to give up
    bool gives_up = false;
    uint32_t stall_us = 0;
    std::optional<Error> mark_error;  // why an executor did not mark; the first one
  };

  const Config config_;
  const uint64_t load_ticket_;
  const std::shared_ptr<CheckpointSource> source_;  // null: initial weights
  CheckpointStore::Place place_;
  std::unique_ptr<CheckpointStore> store_;
  std::optional<Saving> saving_;
};

}  // namespace dslide
