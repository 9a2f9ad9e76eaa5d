// The course of a run: its passes and its checkpoints.
#pragma once

#include <cstdint>

#include "common/base/error.h"
#include "common/wire/messages.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// Ends the pass if all its batches count on all servers, begins the next one if it may, and a
// checkpoint if one is due.
void Proceed(RunState* run, int64_t now_ms);

// Between two segments of a stream: asks for the next one, resizes the model, begins the segment.
// Does nothing at another time, or without a stream.
void TendStream(RunState* run, int64_t now_ms);
// The segment that was asked for has come. It is dropped if it is not needed any more.
void OnSegment(RunState* run, StreamSegment segment, int64_t now_ms);
// The stream has ended: training ends after the trained segments.
void OnStreamEnd(RunState* run, StreamEnd end, int64_t now_ms);

// Begins a checkpoint if one is due and the plan is not about to change.
void MaybeCheckpoint(RunState* run, int64_t now_ms);

// Completes the checkpoint that all servers have written, once later batches show that it is good.
void MaybeWriteManifest(RunState* run, int64_t now_ms);

void OnCheckpointNow(RunState* run, const Member& member, const Message& message, int64_t now_ms);
// The outcome of action::WriteManifest.
void OnCheckpointWritten(RunState* run, const Status& written, int64_t now_ms);

}  // namespace dslide
