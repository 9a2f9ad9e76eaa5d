// A generation of slot maps begins, or goes on without what cannot be trusted: after the loss of a
// server, a lie in a step, or a model that becomes worse.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/core/run_state.h"
#include "scheduler/plan/placement.h"

namespace dslide {

// The pass waits; batches in flight may still be reported.
void Interrupt(RunState* run, int64_t now_ms);

// Servers and what counts go back to the newest complete checkpoint together. Ends a run that has
// lost its checkpoints.
void BeginGeneration(RunState* run, const std::vector<SeatedServer>& servers,
                     std::vector<uint16_t> slot_owner, int64_t now_ms);

// Begins a generation with the servers that there are.
void GoBack(RunState* run, int64_t now_ms);

// What servers hold of steps that are not committed does not count, and is trained again under a
// plan of the same generation. Where servers may have missed a commit all go back to the newest
// checkpoint.
void TakeStepsBack(RunState* run, int64_t now_ms);

// The model becomes worse: servers and what counts go back to the newest checkpoint. If that has
// not helped several times, the run ends.
void OnDrift(RunState* run, int64_t now_ms);

}  // namespace dslide
