// The disk behind a server's executors: the checkpoint that they begin from, and the store that
// they save to. What happens when, and what follows from a failure, is decided by Saver of
// server/core.
//
// One object for each load. Owned by the network thread. Must outlive the pool whose executors it
// serves.
#pragma once

#include <memory>
#include <optional>

#include "server/base/actions.h"
#include "server/executor/executor_pool.h"
#include "server/storage/checkpoint_source.h"
#include "server/storage/checkpoint_store.h"

namespace dslide {

class ServerStorage {
 public:
  ServerStorage(const ServerLoad& load, CheckpointStore::Place place);

  // Fills the pool's executors from the load's checkpoint or seed.
  void StartLoad(ExecutorPool* pool);
  // A load that goes on ends soon: who waits for the executors does not answer the scheduler.
  void CancelLoad();

  // Begins a save and has the executors mark their snapshots. REQUIRES that every executor has
  // loaded and no save is in progress.
  void StartSave(const ServerSave& save, ExecutorPool* pool);
  // The outcome of the save in progress is this error. REQUIRES that no executor puts rows to it.
  void GiveUp(const Error& why);
  // The outcome of a save, once it is there.
  std::optional<CheckpointStore::Saved> Collect();
  // Readable when there is something to collect; -1: never yet.
  int fd() const { return store_ ? store_->fd() : -1; }

 private:
  const uint64_t load_job_id_;
  const std::shared_ptr<CheckpointSource> source_;  // null: initial weights
  CheckpointStore::Place place_;
  std::unique_ptr<CheckpointStore> store_;  // null: nothing was saved yet
};

}  // namespace dslide
