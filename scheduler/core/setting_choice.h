// Settings that a run chooses from evaluations of its held-out samples: values of keys by a race
// (scheduler/pass/race.h), late dropout, the end of training, and the logit adjustment.
//
// RunContext::settings has the chosen values. A slot plan between two epochs tells the members, and
// the ledger tells the next incarnation of the scheduler.
#pragma once

#include <cstdint>

#include "scheduler/base/effects.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// Records an evaluation of the held-out samples, and chooses whether dropout rises or training ends
// soon. After the last epoch it chooses the logit adjustment.
void OnHeldOutEvaluated(RunState* run, EvaluationResult result, int64_t now_ms);

// Sends a plan with the chosen settings, or begins the next trial of the race. Returns true once
// all servers use the chosen settings; call it again until then. REQUIRES that no pass is in
// progress.
bool ApplyChosenSettings(RunState* run, int64_t now_ms);

}  // namespace dslide
