// Training runs of one server that are the same whenever they are repeated, for tests of snapshots.
#pragma once

#include <functional>
#include <ostream>
#include <vector>

#include "tests/server/support/local_cluster.h"
#include "tests/server/support/memory_store.h"

namespace dslide {

struct RunKind {
  OptimizerKind optimizer;
  bool bf16;
  ActiveSet active;
  bool synchronous;
  bool tier = false;  // few rows are in memory, the others in files
};

// For CAPTURE.
std::ostream& operator<<(std::ostream& out, const RunKind& kind);

std::vector<RunKind> AllRunKinds();

constexpr uint64_t kRunSamples = 400;  // 50 batches an epoch, of 8
constexpr uint64_t kStepBatches = 2;

// Some 3,500 rows, so that a snapshot takes several slices.
Config RunConfig(const RunKind& kind);

LeaseBatch RunBatch(const Config& config, uint64_t number);

// Trains batches [begin, end), which are whole steps; `between` comes after each stage of each.
void TrainRun(
    LocalCluster* cluster, uint64_t begin, uint64_t end,
    const std::function<void()>& between = [] {});

}  // namespace dslide
