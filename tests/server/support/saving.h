// A server's checkpoints without sockets and threads of executors: a store, and executors that take
// their snapshots in the caller's thread.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/executor/executor.h"
#include "server/storage/checkpoint_store.h"

namespace dslide {

constexpr int kSaveTimeoutMs = 60000;

// The outcome of the save under way.
inline CheckpointDone AwaitSaved(CheckpointStore* store) {
  pollfd ready{store->fd(), POLLIN, 0};
  REQUIRE(poll(&ready, 1, kSaveTimeoutMs) == 1);
  auto saved = store->Collect();
  REQUIRE(saved.has_value());
  return std::move(saved->done);
}

// One save of `executors`, as a server makes it: the outcome, after which the executors' rows count
// as stored or not.
inline CheckpointDone SaveOnce(CheckpointStore* store, const std::vector<Executor*>& executors,
                               CheckpointStore::Save save) {
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
  for (uint32_t i = 0; i < executors.size(); ++i) executors[i]->BeginSnapshot(store, i);
  for (Executor* e : executors) {
    while (e->snapshot_in_progress()) {
      if (!e->AdvanceSnapshot()) std::this_thread::yield();  // the writer makes room
    }
  }
  CheckpointDone done = AwaitSaved(store);
  if (!done.error.empty()) {
    for (Executor* e : executors) e->ForgetStored();
  }
  return done;
}

inline ManifestShard ShardOf(const CheckpointDone& done, const std::string& server) {
  return {done.shard, server, done.rows, done.bytes, done.files};
}

}  // namespace dslide
