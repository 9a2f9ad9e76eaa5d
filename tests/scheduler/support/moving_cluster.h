// Runs whose slots move: their configuration, and what tests of moves ask of them.
#pragma once

#include <string>
#include <vector>

#include "tests/scheduler/support/fake_cluster.h"

namespace dslide {

inline constexpr int64_t kDeadMs = 8000;  // a silence that no member survives

// Four epochs and 16 slots, which move; asynchronous and synchronous.
Config MoveConfig();
Config StepMoveConfig();

size_t SlotsIn(const Plan& plan, uint64_t member);
bool HasSeat(const Plan& plan, uint64_t member);

// Slots that have other owners, by incarnation.
std::vector<size_t> Changed(const Plan& before, const Plan& after);

// The plans in the ledger.
std::vector<Plan> Planned(const FakeCluster& run);

template <typename T>
const T& LastOf(FakeCluster* run, uint64_t member) {
  const T* last = nullptr;
  for (const Body& body : run->received["peer-" + std::to_string(member)]) {
    if (const auto* found = std::get_if<T>(&body)) last = found;
  }
  REQUIRE(last != nullptr);
  return *last;
}

void Drain(FakeCluster* run, const std::string& name);

// Ends the run: every batch counts once, and all slots have what counts.
void FinishRun(FakeCluster* run, uint64_t worker = 11);

// Server 3 has joined; the plan switch by which it gets its first slots is out, and nobody has
// taken it up.
void StopInPlanSwitch(FakeCluster* run);

struct Joined : FakeCluster {
  Joined();
};

}  // namespace dslide
