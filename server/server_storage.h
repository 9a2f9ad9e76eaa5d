// A server's loading and saving: what its core asks for, done by its executors and its store.
//
// One object for each load. A save: every executor marks its snapshot (a job), the executors put
// rows to the store between their other jobs, and the store's outcome is the save's. If a part
// fails, the executors count their rows as changed again before the outcome is told.
// Owned by the network thread. Must outlive the pool whose executors it serves.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/core/server_core.h"
#include "server/executor/executor_pool.h"
#include "server/storage/checkpoint_store.h"

namespace dslide {

class ServerStorage {
 public:
  ServerStorage(const ServerLoad& load, CheckpointStore::Place place);
  ~ServerStorage();

  // Fills the pool's executors from the load's checkpoint or seed. The parts are Ready or
  // ErrorReply.
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
  struct Loading;

  std::shared_ptr<Loading> loading_;
  CheckpointStore::Place place_;
  std::unique_ptr<CheckpointStore> store_;
  // The save under way.
  uint64_t ticket_ = 0;  // 0: none
  uint32_t marks_missing_ = 0;
  std::optional<uint32_t> aborts_missing_;  // none: the executors were not told to give up
  uint32_t stall_us_ = 0;
  std::string mark_error_;  // why an executor did not mark; the first one
  bool mark_retry_ = false;
  std::optional<CheckpointStore::Saved> saved_;
};

}  // namespace dslide
