// A server's live database of rows, and the thread that writes checkpoints from it.
//
// The executors put what changed since the last checkpoint; one thread writes it into new files,
// takes them into the database and links the whole into the checkpoint's directory, so a checkpoint
// costs what changed. What fails leaves the last complete checkpoint as it was, and the database
// begins again from this server's part of it. When more than half of the database is old, it is
// rewritten after the checkpoint that made it so.
// All disk work is the store's own thread's. Owned by the network thread; the executors call the
// SnapshotSink.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "server/executor/stored_rows.h"

namespace rocksdb {
class Env;
}

namespace dslide {

class CheckpointStore final : public SnapshotSink {
 public:
  struct Place {
    std::string life;                        // the server's name and incarnation, see StoreName
    size_t memory_bytes = size_t{64} << 20;  // of chunks that wait to be written
    rocksdb::Env* env = nullptr;             // null: the system's
  };
  // An earlier shard that has rows of this server; with no directory there is none.
  struct Base {
    std::string directory;
    std::vector<SlotId> slots;  // that it has, ascending; this server's are among them or not
  };
  struct Save {
    uint64_t ticket = 0;
    std::string name;       // of the checkpoint
    std::string directory;  // of the checkpoint; the store lies beside it
    std::string shard;      // the directory within it that this server writes, see ShardName
    std::vector<std::string> keep;  // earlier checkpoints that stay
    std::vector<SlotId> slots;      // of this server, ascending; what others had is left out
    uint32_t executors = 0;         // that will Finish()
    uint64_t rows = 0;              // of this server
  };
  // What became of a save; `done.error` says why there is none.
  struct Saved {
    uint64_t ticket = 0;
    CheckpointDone done;
  };

  // Touches the disk with the first save.
  CheckpointStore(Place place, Base base);
  // Gives up what is being written, and removes the database: no executor may call any more.
  ~CheckpointStore() override;

  // Begins a checkpoint; the executors' snapshots follow. REQUIRES that none is under way.
  void Begin(Save save);
  // The checkpoint under way comes to nothing. REQUIRES that the executors put nothing more.
  void GiveUp(const std::string& error, bool retry);

  // Readable while a Saved is there to be collected.
  int fd() const;
  std::optional<Saved> Collect();

  bool HasRoom(uint32_t executor) override;
  void Put(uint32_t executor, RowChunk chunk) override;
  void Finish(uint32_t executor, std::string record) override;

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace dslide
