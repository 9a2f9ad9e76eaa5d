// The end of a run.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// Tells everybody that the run is over. `reason` is for the members' logs.
void Finish(RunState* run, Status outcome, const std::string& reason, int64_t now_ms);

// The outcome of a run that stops with its newest checkpoint, because without all servers, or
// without a ledger, it cannot write another. `why`: "while servers were missing".
Error StoppedWithSaved(const RunState& run, const std::string& why);

}  // namespace dslide
