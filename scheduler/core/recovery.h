// Recovery: the run continues from the newest checkpoint or from the last committed step, after the
// loss of a server, after wrong gradients, or because the training loss rises.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/core/run_state.h"
#include "scheduler/plan/placement.h"

namespace dslide {

// Stops leasing until all slots have servers. In-flight batches may still be reported.
void Interrupt(RunState* run, int64_t now_ms);

// Rolls servers and counted work back to the newest complete checkpoint, together. Ends the run if
// its checkpoints are lost.
void BeginGeneration(RunState* run, const std::vector<SeatedServer>& servers,
                     std::vector<uint16_t> slot_owner, int64_t now_ms);

// Begins a generation with the present servers.
void GoBack(RunState* run, int64_t now_ms);

// Takes back the batches of uncommitted steps, under a plan of the same generation; they are
// trained again. Begins a generation instead if servers may have missed a commit.
void TakeStepsBack(RunState* run, int64_t now_ms);

// The training loss has risen: begins a generation, or ends the run if several have not helped.
void OnDrift(RunState* run, int64_t now_ms);

}  // namespace dslide
