// A server's live database of rows, and the thread that writes checkpoints from it.
//
// The executors put the rows that changed since the last checkpoint. One thread writes them into
// new files, ingests the files into the database and hard-links the database into the checkpoint's
// directory, so the cost of a checkpoint is that of the changes. A failed save leaves the last
// complete checkpoint as it was. After it the database begins from the last shard if there was no
// space, and empty after another error: then the executors put all rows again. When more than half
// of the database is outdated after a checkpoint, it is compacted; if that fails, the database
// begins again from the last shard.
// All disk work is done by the store's own thread, and by one that compacts beside it.
// Owned by the network thread; the executors call the SnapshotSink.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "server/executor/state/stored_rows.h"

namespace rocksdb {
class Env;
}

namespace dslide {

class CheckpointStore final : public SnapshotSink {
 public:
  struct Place {
    std::string life;                        // the server's name and incarnation, see StoreName
    size_t memory_bytes = size_t{16} << 20;  // bound for chunks that wait to be written
    rocksdb::Env* env = nullptr;             // null: the system's
    uint64_t disk_bytes = 0;  // that the directory of the checkpoints may have here; 0: any
  };
  // An earlier shard with rows of this server; an empty directory: none.
  struct Base {
    std::string directory;
    std::vector<SlotId> slots;  // in the shard, ascending, whoever owns them now
  };
  struct Save {
    uint64_t job_id = 0;
    std::string name;               // of the checkpoint
    std::string directory;          // of the checkpoint; the store is beside it
    std::string shard;              // subdirectory that this server writes, see ShardName
    std::vector<std::string> keep;  // earlier checkpoints to keep
    std::vector<SlotId> slots;      // of this server, ascending; rows of other slots are removed
    uint32_t executors = 0;         // number of Finish() calls to expect
    uint64_t rows = 0;              // of this server
  };
  // What the disk did for a save.
  struct DiskSpeed {
    uint64_t bytes_per_second = 0;  // 0: too little was written to tell
    uint32_t sync_us = 0;           // the longest wait for a file to be on disk
  };
  // The outcome of a save; `done.error` says why it failed.
  struct Saved {
    uint64_t job_id = 0;
    CheckpointDone done;
    DiskSpeed disk;
    bool lost = false;  // with an error that is not to be retried: the next save needs all rows
  };

  // Does not touch the disk before the first save.
  CheckpointStore(Place place, Base base);
  // Aborts the save in progress and removes the database. No executor may call any more.
  ~CheckpointStore() override;

  // Begins a checkpoint; the executors' snapshots follow. REQUIRES that no save is in progress.
  void Begin(Save save);
  // Aborts the save in progress; its outcome has `error` and `retry`. REQUIRES that the executors
  // put nothing more.
  void GiveUp(const std::string& error, bool retry);

  // Readable while an outcome waits for Collect().
  int fd() const;
  std::optional<Saved> Collect();

  bool HasRoom(uint32_t executor) override;
  void AwaitRoom(uint32_t executor, uint32_t most_ms) override;
  void Put(uint32_t executor, RowChunk chunk) override;
  void Finish(uint32_t executor, std::string record) override;

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace dslide
