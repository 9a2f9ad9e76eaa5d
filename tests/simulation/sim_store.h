// A server's store in memory, as server/storage/checkpoint_store.h has it in RocksDB: snapshots of
// its executors add changed rows to it, and when all have finished it is linked into a checkpoint.
// After a write that failed the rows are lost: the executors have to put all of them again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/core/server_core.h"
#include "tests/simulation/world/sim_disk.h"
#include "tests/simulation/world/sim_world.h"

namespace dslide::sim {

class SimStore : public SnapshotSink {
 public:
  using Saved = std::function<void(uint64_t job_id, CheckpointDone done)>;

  SimStore(SimWorld* world, const SimHost* host, size_t executors, Saved saved)
      : world_(*world), host_(*host), saved_(std::move(saved)), parts_(executors) {}

  bool HasRoom(uint32_t executor) override;
  void AwaitRoom(uint32_t, uint32_t) override {}
  void Put(uint32_t executor, RowChunk chunk) override;
  void Finish(uint32_t executor, std::string record) override;

  // A checkpoint begins. REQUIRES that none is in progress.
  void Begin(const ServerSave& save);
  // An executor has marked where it is. What it then puts must be these rows.
  void Mark(uint32_t executor, StoredRows rows, AppliedShadow shadow);
  // The checkpoint in progress ends with this error. REQUIRES that no executor puts rows to it.
  void GiveUp(const Error& why);

  // Rows that were loaded from a checkpoint lie here already.
  void Assume(const StoredRowKey& key, const std::vector<uint8_t>& value) {
    rows_[key] = complete_[key] = value;
  }

 private:
  struct Part {  // of an executor
    StoredRows expected;
    AppliedShadow shadow;
    std::string record;
    bool finished = false;
  };
  void Check(uint32_t executor) const;
  void End(CheckpointDone done);

  SimWorld& world_;
  const SimHost& host_;
  Saved saved_;
  StoredRows rows_;
  StoredRows complete_;  // rows_ as of the last complete checkpoint
  std::optional<ServerSave> save_;
  bool failed_ = false;  // a write of the save in progress
  std::vector<Part> parts_;
};

}  // namespace dslide::sim
