#include "tests/server/support/saving.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <thread>

#include "common/checkpoint/manifest.h"

namespace dslide {

CheckpointStore::Saved AwaitSaved(CheckpointStore* store) {
  pollfd ready{store->fd(), POLLIN, 0};
  REQUIRE(poll(&ready, 1, kSaveTimeoutMs) == 1);
  auto saved = store->Collect();
  REQUIRE(saved.has_value());
  return std::move(*saved);
}

CheckpointDone SaveOnce(CheckpointStore* store, const std::vector<Executor*>& executors,
                        CheckpointStore::Save save, const std::function<void()>& marked) {
  save.executors = static_cast<uint32_t>(executors.size());
  save.rows = 0;
  save.slots.clear();
  for (Executor* e : executors) {
    save.rows += e->input().layer().map().size() + e->output().layer().map().size();
    const auto owned = e->input().layer().map().owned();
    save.slots.insert(save.slots.end(), owned.begin(), owned.end());
  }
  std::sort(save.slots.begin(), save.slots.end());
  store->Begin(save);
  for (uint32_t i = 0; i < executors.size(); ++i) {
    executors[i]->set_local_index(i);
    executors[i]->BeginSnapshot(store);
  }
  marked();
  for (Executor* e : executors) {
    while (e->snapshot_in_progress()) {
      if (!e->AdvanceSnapshot()) std::this_thread::yield();  // the writer makes room
    }
  }
  CheckpointStore::Saved saved = AwaitSaved(store);
  if (saved.done.error.empty()) return std::move(saved.done);
  for (Executor* e : executors) {
    if (saved.lost) {
      e->ForgetStored();
    } else {
      e->AbortSnapshot();
    }
  }
  return std::move(saved.done);
}

ManifestShard ShardOf(const CheckpointDone& done, const std::string& server) {
  return {done.shard, server, done.rows, done.bytes, done.files};
}

}  // namespace dslide
