// A store of snapshots in memory: what a checkpoint would hold, without a disk.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/executor/executor.h"

namespace dslide {

using StoredRows = std::map<StoredRowKey, std::vector<uint8_t>>;

class MemoryStore : public SnapshotSink {
 public:
  // Every `patience`-th question for room is answered with yes.
  explicit MemoryStore(uint32_t patience = 1) : patience_(patience) {}

  bool HasRoom(uint32_t) override { return ++asked_ % patience_ == 0; }
  void AwaitRoom(uint32_t, uint32_t) override { ++awaited; }
  void Put(uint32_t executor, RowChunk chunk) override;
  void Finish(uint32_t executor, std::string record) override;

  // A snapshot begins: of executor number `executor`.
  void Begin(Executor* of, uint32_t executor = 0);
  // A snapshot at once.
  void Save(Executor* of, uint32_t executor = 0);
  // What the last snapshot of an executor wrote.
  const StoredRows& written(uint32_t executor = 0) { return written_[executor]; }

  std::vector<std::string> AllRecords() const;
  // Loads the rows that are an executor's, and all records.
  Status Load(Executor* executor) const;

  StoredRows rows;  // of all snapshots, as a database has them
  std::map<uint32_t, std::string> records;
  uint32_t chunks = 0;
  uint32_t early_rows = 0;  // in early chunks
  uint32_t awaited = 0;     // AwaitRoom()
  uint32_t finished = 0;

 private:
  uint32_t patience_;
  uint64_t asked_ = 0;
  std::map<uint32_t, StoredRows> written_;
  std::map<uint32_t, StoredRowKey> last_;  // of the chunks in order
};

// Everything that an executor is, in flight batches apart. Its next snapshot writes all rows.
std::pair<StoredRows, std::string> StateOf(Executor* executor);

}  // namespace dslide
