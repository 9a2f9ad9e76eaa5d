// The course of a run whose training data is a stream (train.open_vocabulary): from segment to
// segment. A segment is an epoch. Before it begins the model grows by what is new in it, with a
// plan that moves no slot. What a checkpoint holds is of one segment: when all go back to it the
// model is as small as it was, and the shell brings the segments again, cut in the same places.
#pragma once

#include <cstdint>

#include "scheduler/core/run_state.h"

namespace dslide {

enum class StreamStep {
  kWait,      // for the segment, or for servers
  kEvaluate,  // the model on samples of the segment
  kTrain,     // the segment
};

// What to do between two segments. Asks for the next one and resizes the model for it. kWait
// elsewhere, and without a stream.
StreamStep NextStreamStep(RunState* run, int64_t now_ms);

// The shape of the newest checkpoint, or without one of the first segment, for which it changes
// `inputs`. Without a stream: that of fixed sizes.
ModelShape ShapeToRestore(RunState* run);

}  // namespace dslide
