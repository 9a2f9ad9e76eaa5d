#include "tests/scheduler/support/step_cluster.h"

#include <algorithm>

namespace dslide {

Config StepConfig(int32_t staleness) {
  Config config = RunConfig();
  config.train.staleness = staleness;
  config.train.target_batch = 4 * config.train.batch;
  ResolveConfig(50, 10, &config);
  REQUIRE(config.train.unit_batches == 1);
  return config;
}

std::vector<uint64_t> Commits(FakeCluster* run, uint64_t server) {
  std::vector<uint64_t> commits;
  for (const Body& body : run->received["peer-" + std::to_string(server)]) {
    const auto* commit = std::get_if<CommitSteps>(&body);
    if (commit != nullptr) commits.push_back(commit->committed);
  }
  return commits;
}

std::vector<uint32_t> Leased(FakeCluster* run, uint64_t worker) {
  std::vector<uint32_t> units;
  for (const auto& [grant, batch] : run->work(worker)) units.push_back(grant.unit);
  return units;
}

void LeaseAll(FakeCluster* run, uint64_t worker) {
  while (run->Lease(worker)) {
  }
}

void Finish(FakeCluster* run, uint64_t worker, uint32_t unit) {
  LeasedBatches& work = run->work(worker);
  const auto found =
      std::find_if(work.begin(), work.end(), [&](const auto& w) { return w.first.unit == unit; });
  REQUIRE(found != work.end());
  const auto [grant, batch] = *found;
  work.erase(found);
  run->Send(worker, FakeCluster::Report(grant, batch));
}

void CheckHolds(FakeCluster* run, const Manifest& manifest, uint64_t steps) {
  const uint64_t batches = std::min<uint64_t>(4 * steps, FakeCluster::kBatches);
  CAPTURE(manifest.name);
  CHECK(manifest.epoch == 0);
  CHECK(manifest.batches == batches);
  CHECK(manifest.samples == std::min<uint64_t>(4 * batches, FakeCluster::kSamples));
  REQUIRE(manifest.done.size() == batches);
  for (uint32_t n = 0; n < batches; ++n) {
    CHECK(manifest.done[n].unit == n);
    CHECK(manifest.done[n].index == 0);
  }
  for (const uint64_t server : {1, 2}) {
    CHECK(run->servers.saved.at({manifest.name, server}) == steps);
  }
}

void AskForCheckpoint(FakeCluster* run) {
  run->Join(21, Role::kObserver);
  run->Send(21, CheckpointNow{});
}

}  // namespace dslide
