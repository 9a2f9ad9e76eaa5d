// A server's checkpoints without sockets and threads of executors: a store, and executors that take
// their snapshots in the caller's thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "server/executor/executor.h"
#include "server/storage/checkpoint_store.h"

namespace dslide {

constexpr int kSaveTimeoutMs = 60000;

// The outcome of the save under way.
CheckpointStore::Saved AwaitSaved(CheckpointStore* store);

// One save of `executors`, as a server makes it: the outcome, after which the executors' rows count
// as stored or not. `marked` is called when all of them have marked where they are.
CheckpointDone SaveOnce(
    CheckpointStore* store, const std::vector<Executor*>& executors, CheckpointStore::Save save,
    const std::function<void()>& marked = [] {});

ManifestShard ShardOf(const CheckpointDone& done, const std::string& server);

}  // namespace dslide
