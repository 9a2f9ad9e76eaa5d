// The course of a run whose training data is a stream (train.open_vocabulary): from segment to
// segment. A segment is an epoch. Before it begins the model grows by what is new in it, with a
// plan that moves no slot. What a checkpoint holds is of one segment: when all go back to it the
// model is as small as it was, and the shell brings the segments again, cut in the same places.
#pragma once

#include <cstdint>

#include "scheduler/core/run_state.h"

namespace dslide {

// Between two segments: asks for the next one, resizes the model, begins the segment. Does nothing
// otherwise, or without a stream.
void TendStream(RunState* run, int64_t now_ms);

// A segment that was asked for. One that is not needed any more is dropped.
void TakeSegment(RunState* run, StreamSegment segment, int64_t now_ms);
// Training ends with the segments that are done.
void EndStream(RunState* run, StreamEnd end, int64_t now_ms);

// The shape of the newest checkpoint, or without one of the first segment, for which it changes
// `inputs`. Without a stream: that of fixed sizes.
ModelShape ShapeToRestore(RunState* run);

}  // namespace dslide
