// A server's store in memory, as server/checkpoint_store.h has it in RocksDB: snapshots of its
// executors add changed rows to it, and when all have finished it is linked into a checkpoint.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/server_core.h"
#include "tests/simulation/sim_disk.h"
#include "tests/simulation/sim_world.h"

namespace dslide::sim {

class SimStore : public SnapshotSink {
 public:
  using Saved = std::function<void(uint64_t ticket, CheckpointDone done)>;

  SimStore(SimWorld* world, std::string name, size_t executors, Saved saved)
      : world_(*world), name_(std::move(name)), saved_(std::move(saved)), parts_(executors) {}

  bool HasRoom(uint32_t executor) override;
  void Put(uint32_t executor, RowChunk chunk) override;
  void Finish(uint32_t executor, std::string record) override;

  // A checkpoint begins; one in progress is given up.
  void Begin(const ServerCore::Save& save);
  // Whether this is still what is being saved.
  bool IsSaving(uint64_t ticket) const { return save_ && save_->ticket == ticket; }
  // An executor has marked where it is. What it then puts must be these rows.
  void Mark(uint32_t executor, StoredRows rows, AppliedShadow shadow);
  // The checkpoint cannot be what was asked for.
  void Fail(const std::string& why);

  // Rows that were loaded from a checkpoint lie here already.
  void Assume(const StoredRowKey& key, std::vector<uint8_t> value) {
    rows_[key] = std::move(value);
  }

 private:
  struct Part {  // of an executor
    StoredRows expected;
    AppliedShadow shadow;
    std::string record;
    bool finished = false;
  };
  void Check(uint32_t executor) const;

  SimWorld& world_;
  std::string name_;
  Saved saved_;
  StoredRows rows_;
  std::optional<ServerCore::Save> save_;
  std::vector<Part> parts_;
};

}  // namespace dslide::sim
