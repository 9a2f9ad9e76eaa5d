#include "tests/server/support/memory_store.h"

#include <doctest/doctest.h>

namespace dslide {

void MemoryStore::Put(uint32_t executor, RowChunk chunk) {
  REQUIRE(chunk.keys.size() == chunk.ends.size());
  REQUIRE_FALSE(chunk.keys.empty());
  auto begin = chunk.bytes.begin();
  for (size_t i = 0; i < chunk.keys.size(); ++i) {
    if (chunk.early) {
      REQUIRE((i == 0 || chunk.keys[i - 1] < chunk.keys[i]));
      ++early_rows;
    } else {
      REQUIRE((!last_.contains(executor) || last_[executor] < chunk.keys[i]));
      last_[executor] = chunk.keys[i];
    }
    REQUIRE_FALSE(written_[executor].contains(chunk.keys[i]));
    const auto end = chunk.bytes.begin() + static_cast<ptrdiff_t>(chunk.ends[i]);
    written_[executor][chunk.keys[i]] = rows[chunk.keys[i]] = {begin, end};
    begin = end;
  }
  REQUIRE(begin == chunk.bytes.end());
  ++chunks;
}

void MemoryStore::Finish(uint32_t executor, std::string record) {
  records[executor] = std::move(record);
  finished++;
}

void MemoryStore::Begin(Executor* of, uint32_t executor) {
  written_[executor].clear();
  last_.erase(executor);
  of->set_local_index(executor);
  of->BeginSnapshot(this);
}

void MemoryStore::Save(Executor* of, uint32_t executor) {
  Begin(of, executor);
  while (of->snapshot_in_progress()) of->AdvanceSnapshot();
}

std::vector<std::string> MemoryStore::AllRecords() const {
  std::vector<std::string> all;
  for (const auto& [executor, record] : records) all.push_back(record);
  return all;
}

Status MemoryStore::Load(Executor* executor) const {
  for (const auto& [key, value] : rows) {
    const Layer& layer =
        key.layer == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
    if (layer.map().Owns(key.slot)) DSLIDE_RETURN_IF_ERROR(executor->LoadRow(key, value));
  }
  return executor->FinishLoad(AllRecords());
}

std::pair<StoredRows, std::string> StateOf(Executor* executor) {
  MemoryStore store;
  executor->input().layer().changed().MarkAll();
  executor->output().layer().changed().MarkAll();
  store.Save(executor);
  executor->AbortSnapshot();
  return {store.rows, store.records[0]};
}

}  // namespace dslide
