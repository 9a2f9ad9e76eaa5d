// What a run chooses in its course, by its held-out samples: the values of some keys by a race
// (scheduler/pass/race.h), and when training ends.
//
// A choice is a value of a key of the configuration (RunContext::settings). Members learn of it by
// a slot plan between two epochs; a later life of the scheduler finds it in the ledger.
#pragma once

#include <cstdint>

#include "scheduler/base/effects.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// The held-out samples were evaluated after an epoch: chooses what follows from that.
void OnHeldOut(RunState* run, EvaluationResult result, int64_t now_ms);

// Whether all servers work by what was chosen. If not, they get a plan as soon as one may begin, or
// a trial begins with a new generation; ask again. REQUIRES that the run is between two passes.
bool TakeUpChoices(RunState* run, int64_t now_ms);

}  // namespace dslide
