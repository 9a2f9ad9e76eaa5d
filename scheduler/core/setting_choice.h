// Settings that a run chooses from evaluations of its held-out samples: late dropout, more
// negatives, the end of training, and the logit adjustment.
//
// RunContext::settings has the chosen values. A slot plan between two epochs tells the members, and
// the ledger tells the next incarnation of the scheduler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/base/actions.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// The keys, "section.key", whose values a run may choose: those that `asked`, the configuration
// before anything was derived, leaves open.
std::vector<std::string> OpenKeys(const Config& asked);

// Records an evaluation of the held-out samples, and chooses whether dropout rises or training ends
// soon. After the last epoch it chooses the logit adjustment.
void OnHeldOutEvaluated(RunState* run, EvaluationResult result, int64_t now_ms);

// Sends a plan with the chosen settings. Returns true once all servers use them; call it again
// until then. REQUIRES that no pass is in progress.
bool ApplyChosenSettings(RunState* run, int64_t now_ms);

}  // namespace dslide
