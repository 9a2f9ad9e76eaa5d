// Snapshots while training goes on: they hold the state at the mark, and leave the run as it is.
#include "server/executor/state/snapshot.h"

#include "tests/server/support/training_run.h"

namespace dslide::snapshot_test {
namespace {

// The state of a run after so many batches, undisturbed by snapshots.
std::pair<StoredRows, std::string> StateAfter(const Config& config, uint64_t batches) {
  LocalCluster cluster(config, kRunSamples, {1});
  TrainRun(&cluster, 0, batches);
  return StateOf(cluster.executors()[0]);
}

TEST_CASE("snapshots: each is the state at its mark, and the run does not notice them") {
  for (const RunKind& kind : AllRunKinds()) {
    CAPTURE(kind);
    const Config config = RunConfig(kind);
    LocalCluster cluster(config, kRunSamples, {1});
    Executor* executor = cluster.executors()[0];
    MemoryStore store(3);
    for (const uint64_t mark : {0, 4, 10, 24}) {
      CAPTURE(mark);
      store.Begin(executor);
      CHECK(executor->snapshot_in_progress());
      const uint64_t next = mark == 0 ? 4 : mark == 4 ? 10 : mark == 10 ? 24 : 30;
      TrainRun(&cluster, mark, next, [&] { (void)executor->Background(); });
      CHECK_FALSE(executor->snapshot_in_progress());
      if (mark == 0 && kind.synchronous) continue;  // the first commit comes after the mark
      const auto expected = StateAfter(config, mark);
      CHECK(store.rows == expected.first);
      CHECK(store.records[0] == expected.second);
    }
    CHECK(store.finished == 4);
    CHECK(StateOf(executor) == StateAfter(config, 30));
  }
}

// By the stored rows of two states: those that changed, and those that were not settled.
StoredRows Due(const StoredRows& before, const StoredRows& now, size_t settled_bytes) {
  StoredRows due;
  for (const auto& [key, value] : now) {
    const auto& old = before.at(key);
    if (old != value || (key.layer == LayerKind::kOutput && old.size() > settled_bytes)) {
      due[key] = value;
    }
  }
  return due;
}

TEST_CASE("snapshots: the first has all rows, the next what changed or was not settled") {
  const Config config = RunConfig({OptimizerKind::kAdaGrad, false, ActiveSet::kLsh, false});
  LocalCluster cluster(config, kRunSamples, {1});
  Executor* executor = cluster.executors()[0];
  MemoryStore store;
  TrainRun(&cluster, 0, 6);
  store.Save(executor);
  CHECK(store.written().size() == config.model.features + 1 + config.model.labels);
  const size_t settled = executor->output().layer().RowBytes() + 5 * sizeof(BucketCode);
  size_t unsettled = 0;
  for (const auto& [key, value] : store.rows) {
    unsettled += key.layer == LayerKind::kOutput && value.size() > settled;
  }
  CHECK(unsettled > 10);
  CHECK(unsettled < config.model.labels / 2);
  for (uint64_t batch = 6; batch < 30; ++batch) {
    const StoredRows before = store.rows;
    TrainRun(&cluster, batch, batch + 1);
    store.Save(executor);
    const StoredRows due = Due(before, store.rows, settled);
    for (const auto& [key, value] : due) REQUIRE(store.written().contains(key));
    // An update by a gradient of 0 changes nothing but counts as one.
    CHECK(store.written().size() <= due.size() + due.size() / 4);
  }
  // Without updates all rows settle, and then there is nothing to write.
  for (uint32_t n = 0; n < executor->output().index()->tables().lag_batches(); ++n) {
    executor->output().FollowUpdates();
  }
  store.Save(executor);
  CHECK_FALSE(store.written().empty());
  store.Save(executor);
  CHECK(store.written().empty());
  CHECK(store.rows == StateOf(executor).first);
}

TEST_CASE("snapshots: chunks have some 1 MB") {
  Config config = SmallConfig(1000, 2000, 256);
  Executor executor(config, 100, AllSlots(config), Purpose::kTraining, BestKernels());
  executor.Initialise();
  MemoryStore store;
  store.Save(&executor);
  CHECK(store.rows.size() == 3001);
  CHECK(store.chunks == 3);  // 3.1 MB
  CHECK(store.finished == 1);
}

TEST_CASE("snapshots: without room nothing is put, and nothing else waits") {
  const Config config = RunConfig({OptimizerKind::kAdam, false, ActiveSet::kLsh, false});
  LocalCluster cluster(config, kRunSamples, {1});
  Executor* executor = cluster.executors()[0];
  MemoryStore full(~0u);
  full.Begin(executor);
  TrainRun(&cluster, 0, 3, [&] { CHECK_FALSE(executor->Background()); });
  CHECK(full.rows.empty());
  CHECK(executor->snapshot_in_progress());
}

// 20,000 neurons of 400 stored bytes.
struct ManyRows {
  Config config = [] {
    Config c = SmallConfig(100, 20000, 32);
    c.train.optimizer = OptimizerKind::kAdam;
    return c;
  }();
  Executor executor{config, 100, AllSlots(config), Purpose::kTraining, BestKernels()};
  ManyRows() { executor.Initialise(); }

  Layer& layer() { return executor.output().layer(); }
  void Change(uint32_t begin, uint32_t end) {
    for (uint32_t row = begin; row < end; ++row) {
      layer().changed().BeforeChange(row);
      layer().row(row).weights[0] += 1.0f;
    }
  }
};

TEST_CASE_FIXTURE(ManyRows,
                  "snapshots: copies of rows that change are written before they are many") {
  const StoredRows expected = StateOf(&executor).first;
  MemoryStore store;
  store.Begin(&executor);
  const uint32_t rows = layer().map().rows();
  size_t most = 0;
  for (uint32_t end = rows; end > 0; end -= std::min(end, 500u)) {  // the last ones first
    Change(end - std::min(end, 500u), end);
    most = std::max(most, layer().changed().aside_bytes());
    (void)executor.Background();
  }
  while (executor.Background()) {
  }
  CHECK(store.rows == expected);
  CHECK(store.written().size() == expected.size());
  CHECK(store.early_rows > 2000);
  CHECK(most < size_t{5} << 19);  // 2.5 MB; all copies take 9 MB
  CHECK(layer().changed().aside_bytes() == 0);
}

TEST_CASE_FIXTURE(ManyRows,
                  "snapshots: batches wait for a store that cannot follow, but not for long") {
  const StoredRows expected = StateOf(&executor).first;
  MemoryStore slow(8);
  slow.Begin(&executor);
  executor.AwaitStore();  // nothing is copied
  CHECK(slow.awaited == 0);
  CHECK(slow.rows.empty());
  Change(0, layer().map().rows());
  // One wait does it, unless this machine is too slow for what a batch may wait.
  for (int batch = 0; batch < 1000 && layer().changed().aside_bytes() > size_t{4} << 20; ++batch) {
    executor.AwaitStore();
  }
  CHECK(slow.awaited > 0);
  CHECK(slow.early_rows > 10000);
  CHECK(layer().changed().aside_bytes() <= size_t{4} << 20);
  while (executor.snapshot_in_progress()) (void)executor.Background();
  CHECK(slow.rows == expected);

  MemoryStore full(~0u);
  full.Begin(&executor);
  Change(0, layer().map().rows());
  executor.AwaitStore();  // returns
  CHECK(full.awaited > 0);
  CHECK(executor.snapshot_in_progress());
}

}  // namespace
}  // namespace dslide::snapshot_test
