// A server of two executors with its store on a disk: the checkpoints that it writes.
#pragma once

#include <doctest/doctest.h>
#include <rocksdb/env.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/layout.h"
#include "server/storage/checkpoint.h"
#include "server/storage/checkpoint_store.h"
#include "server/storage/checkpoint_verify.h"
#include "tests/server/support/local_cluster.h"
#include "tests/server/support/saving.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide {

constexpr char kStoreLife[] = "server-0000000000000001";

inline Config StoreConfig() {
  Config config = SmallConfig(400, 20000, 32);
  config.train.optimizer = OptimizerKind::kAdam;
  return config;
}

// One server of two executors, its store, and its checkpoints 1, 2, ...
struct SavingServer {
  explicit SavingServer(const Config& c, rocksdb::Env* env = nullptr, uint64_t disk_bytes = 0)
      : config(c),
        cluster(c, 1000, {2}),
        store(std::make_unique<CheckpointStore>(
            CheckpointStore::Place{kStoreLife, size_t{1} << 20, env, disk_bytes},
            CheckpointStore::Base{})) {}

  std::string Path(uint64_t n) const { return directory.path() + "/" + CheckpointName(n); }

  CheckpointDone Save(
      uint64_t n, std::vector<std::string> keep = {}, const std::function<void()>& marked = [] {}) {
    CheckpointDone done =
        SaveOnce(store.get(), cluster.executors(),
                 {n, CheckpointName(n), Path(n), ShardName(1, 0), std::move(keep), {}}, marked);
    if (!done.error.empty()) return done;
    Manifest manifest;
    manifest.name = done.name;
    manifest.config = FormatConfig(config);
    manifest.shards = {ShardOf(done, "server")};
    REQUIRE(WriteManifest(Path(n), manifest).ok());
    return done;
  }
  // Changes every `stride`-th neuron.
  void Touch(uint32_t stride, float by) {
    for (Executor* executor : cluster.executors()) {
      Layer& layer = executor->output().layer();
      for (uint32_t n = 0; n < config.model.labels; n += stride) {
        const uint32_t row = layer.map().Local(n);
        if (row == SlotMap::kNone) continue;
        layer.changed().BeforeChange(row);
        layer.row(row).weights[0] += by;
      }
    }
  }
  CheckpointHealth Health(uint64_t n) const {
    const auto manifest = Ok(ReadManifest(Path(n)));
    return VerifyCheckpoint(Path(n), manifest);
  }
  // What a restored server has must be what this one has.
  void CheckRestores(uint64_t n) {
    LocalCluster restored(config, 1000, {3}, false);
    const auto shards = Ok(CheckpointShards::Open(Path(n)));
    bool same = true;
    for (Executor* executor : restored.executors()) REQUIRE(shards->Restore(executor).ok());
    for (uint32_t i = 0; i < config.model.labels; i += 7) {
      same = same && restored.Row(LayerKind::kOutput, i).weights[0] ==
                         cluster.Row(LayerKind::kOutput, i).weights[0];
    }
    CHECK(same);
  }

  Config config;
  TempDirectory directory;
  LocalCluster cluster;
  std::unique_ptr<CheckpointStore> store;
};

}  // namespace dslide
