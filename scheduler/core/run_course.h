// The course of a run: from pass to pass, from checkpoint to checkpoint, to its end.
#pragma once

#include <cstdint>

#include "common/base/error.h"
#include "common/wire/messages.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// Ends the pass if all its batches count, on all servers; goes on to the next one if nothing stands
// against it; begins a checkpoint if one is due.
void Proceed(RunState* run, int64_t now_ms);

// Of a stream, between two segments: asks for the next one, resizes the model, begins the segment.
// Does nothing otherwise.
void TendStream(RunState* run, int64_t now_ms);
// A segment that was asked for. One that is not needed any more is dropped.
void OnSegment(RunState* run, StreamSegment segment, int64_t now_ms);
// Training ends with the segments that are done.
void OnStreamEnd(RunState* run, StreamEnd end, int64_t now_ms);

// Begins a checkpoint if one is due and the plan is not about to change.
void MaybeCheckpoint(RunState* run, int64_t now_ms);

// Completes the checkpoint that all servers have written, if there is no doubt that it is a good
// one.
void MaybeWriteManifest(RunState* run, int64_t now_ms);

void OnCheckpointNow(RunState* run, const Member& member, const Message& message, int64_t now_ms);
// The outcome of action::WriteManifest.
void OnCheckpointWritten(RunState* run, const Status& written, int64_t now_ms);

}  // namespace dslide
