// A FakeCluster in synchronous training.
#pragma once

#include <vector>

#include "tests/scheduler/support/fake_cluster.h"

namespace dslide {

// 13 batches an epoch, each a unit, in steps of 4, 4, 4 and 1.
Config StepConfig(int32_t staleness = 0);

using Units = std::vector<uint32_t>;

// What a server has been told, in order.
std::vector<uint64_t> Commits(FakeCluster* run, uint64_t server);

// The batches of the epoch that a worker has leased and not done.
std::vector<uint32_t> Leased(FakeCluster* run, uint64_t worker);

void LeaseAll(FakeCluster* run, uint64_t worker);

// Reports a leased batch of a unit.
void Finish(FakeCluster* run, uint64_t worker, uint32_t unit);

// Checks that a manifest holds `steps` whole steps of the first epoch and nothing else, and that
// all servers stood there when they saved.
void CheckHolds(FakeCluster* run, const Manifest& manifest, uint64_t steps);

void AskForCheckpoint(FakeCluster* run);

}  // namespace dslide
