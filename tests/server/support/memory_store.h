// A store of snapshots in memory: what a checkpoint would hold, without a disk.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "server/executor/executor.h"

namespace dslide {

using StoredRows = std::map<StoredRowKey, std::vector<uint8_t>>;

class MemoryStore : public SnapshotSink {
 public:
  // Every `patience`-th question for room is answered with yes.
  explicit MemoryStore(uint32_t patience = 1) : patience_(patience) {}

  bool HasRoom(uint32_t) override { return ++asked_ % patience_ == 0; }
  void Put(uint32_t executor, RowChunk chunk) override {
    REQUIRE(chunk.keys.size() == chunk.ends.size());
    REQUIRE_FALSE(chunk.keys.empty());
    auto begin = chunk.bytes.begin();
    for (size_t i = 0; i < chunk.keys.size(); ++i) {
      REQUIRE((written_[executor].empty() || written_[executor].rbegin()->first < chunk.keys[i]));
      const auto end = chunk.bytes.begin() + static_cast<ptrdiff_t>(chunk.ends[i]);
      written_[executor][chunk.keys[i]] = rows[chunk.keys[i]] = {begin, end};
      begin = end;
    }
    REQUIRE(begin == chunk.bytes.end());
    ++chunks;
  }
  void Finish(uint32_t executor, std::string record) override {
    records[executor] = std::move(record);
    finished++;
  }

  // A snapshot begins: of executor number `executor`.
  void Begin(Executor* of, uint32_t executor = 0) {
    written_[executor].clear();
    of->BeginSnapshot(this, executor);
  }
  // A snapshot at once.
  void Save(Executor* of, uint32_t executor = 0) {
    Begin(of, executor);
    while (of->snapshot_in_progress()) of->AdvanceSnapshot();
  }
  // What the last snapshot of an executor wrote.
  const StoredRows& written(uint32_t executor = 0) { return written_[executor]; }

  std::vector<std::string> AllRecords() const {
    std::vector<std::string> all;
    for (const auto& [executor, record] : records) all.push_back(record);
    return all;
  }
  // Loads the rows that are an executor's, and all records.
  Status Load(Executor* executor) const {
    for (const auto& [key, value] : rows) {
      const Layer& layer =
          key.layer == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
      if (layer.map().Owns(key.slot)) DSLIDE_RETURN_IF_ERROR(executor->LoadRow(key, value));
    }
    return executor->FinishLoad(AllRecords());
  }

  StoredRows rows;  // of all snapshots, as a database has them
  std::map<uint32_t, std::string> records;
  uint32_t chunks = 0;
  uint32_t finished = 0;

 private:
  uint32_t patience_;
  uint64_t asked_ = 0;
  std::map<uint32_t, StoredRows> written_;
};

// Everything that an executor is, in flight batches apart. Its next snapshot writes all rows.
inline std::pair<StoredRows, std::string> StateOf(Executor* executor) {
  MemoryStore store;
  executor->input().layer().changed().MarkAll();
  executor->output().layer().changed().MarkAll();
  store.Save(executor);
  executor->AbortSnapshot();
  return {store.rows, store.records[0]};
}

}  // namespace dslide
