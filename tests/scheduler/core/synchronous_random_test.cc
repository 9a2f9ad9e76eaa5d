// The scheduler in synchronous training under random events.
#include "common/base/random.h"
#include "common/run/step.h"
#include "tests/scheduler/support/step_cluster.h"

namespace dslide::synchronous_random_test {
namespace {

using Phase = SchedulerCore::Phase;

// Workers that join, die, get stuck and come late, servers that lose every third commit and are
// slow now and then, and checkpoints at any time.
void RunProperty(uint64_t seed, int32_t staleness) {
  CAPTURE(seed);
  CAPTURE(staleness);
  Random random(seed);
  Config config = StepConfig(staleness);
  config.cluster.lease_timeout_ms = 15'000;
  FakeCluster run(config, {}, false);
  run.Start();
  std::vector<uint64_t> workers = {11};
  uint64_t next_worker = 12;
  for (int turn = 0; turn < 5000 && run.core().phase() != Phase::kFinished; ++turn) {
    run.servers.commits_lost = random.Below(3) == 0;
    run.servers_answer = random.Below(4) != 0;
    if (random.Below(20) == 0) AskForCheckpoint(&run);
    const uint64_t worker = workers[random.Below(workers.size())];
    switch (random.Below(12)) {
      case 0:
        run.Join(next_worker, Role::kWorker);
        workers.push_back(next_worker++);
        break;
      case 1:
        if (workers.size() == 1) break;
        std::erase(workers, worker);  // without a word
        run.Silence(worker);
        break;
      case 2:
        run.work(worker).clear();  // gives its batches up
        break;
      case 3:
        run.Wait(4000);
        break;
      case 4:
      case 5:
        (void)run.Lease(worker);
        break;
      default: {
        auto& work = run.work(worker);
        if (work.empty()) break;
        const size_t pick = random.Below(work.size());
        const auto [grant, batch] = work[pick];
        work.erase(work.begin() + static_cast<ptrdiff_t>(pick));
        run.Send(worker, FakeCluster::Report(grant, batch));
      }
    }
    // What servers are told is complete, and in order.
    for (const uint64_t server : {1, 2}) {
      const std::vector<uint64_t> commits = Commits(&run, server);
      REQUIRE(std::is_sorted(commits.begin(), commits.end()));
      for (uint64_t step = 0; step < commits.back(); ++step) {
        const StepExtent extent =
            ExtentOfStep(step, run.core().run().config.train, FakeCluster::kSamples);
        uint64_t counted = 0;
        for (const auto& [id, times] : run.promise.counted) {
          counted += StepOf(id, run.core().run().config.train, FakeCluster::kSamples) == step;
        }
        REQUIRE(counted == extent.batches);
      }
    }
  }
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().ok());
  CHECK(run.promise.counted.size() == 2 * FakeCluster::kBatches);
  for (const auto& [batch, times] : run.promise.counted) CHECK(times == 1);
  // Each checkpoint is of whole steps, at which all servers stood when they saved.
  for (const Manifest& manifest : run.manifests) {
    CAPTURE(manifest.name);
    const uint64_t steps = run.servers.saved.at({manifest.name, 1});
    REQUIRE(run.servers.saved.at({manifest.name, 2}) == steps);
    uint64_t batches = 0;
    for (uint64_t step = 0; step < steps; ++step) {
      batches += ExtentOfStep(step, run.core().run().config.train, FakeCluster::kSamples).batches;
    }
    REQUIRE(manifest.batches == batches);
    REQUIRE(manifest.done.size() == batches - manifest.epoch * FakeCluster::kBatches);
  }
}

TEST_CASE("synchronous: whatever happens, every batch counts once and steps commit in order") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const int32_t staleness : {0, 1, 3}) RunProperty(seed, staleness);
  }
}

}  // namespace
}  // namespace dslide::synchronous_random_test
