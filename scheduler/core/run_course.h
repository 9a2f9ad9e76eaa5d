// The course of a run: from pass to pass, from checkpoint to checkpoint, to its end.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/wire/messages.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// Ends the pass if all its batches count, on all servers; goes on to the next one if nothing stands
// against it; begins a checkpoint if one is due.
void Proceed(RunState* run, int64_t now_ms);

// Begins an evaluation. REQUIRES that the set has samples, and that no pass is in progress.
void BeginEvaluation(RunState* run, EvaluationSet set);

// Begins a checkpoint if one is due and the plan is not about to change.
void MaybeCheckpoint(RunState* run, int64_t now_ms);

// Completes the checkpoint that all servers have written, if there is no doubt that it is a good
// one.
void MaybeWriteManifest(RunState* run, int64_t now_ms);

// The model becomes worse: servers and what counts go back to the newest checkpoint. If that has
// not helped several times, the run ends.
void OnDrift(RunState* run, int64_t now_ms);

void OnCheckpointNow(RunState* run, const Member& member, const Message& message, int64_t now_ms);
// The outcome of Effects::manifest.
void OnCheckpointWritten(RunState* run, const Status& written, int64_t now_ms);

// Tells everybody that the run is over. `reason` is for the members' logs.
void Finish(RunState* run, Status outcome, const std::string& reason, int64_t now_ms);
// The outcome of a run that stops with its newest checkpoint, because without all servers, or
// without a ledger, it cannot write another. `why`: "while servers were missing".
Error StoppedWithSaved(const RunState& run, const std::string& why);

}  // namespace dslide
