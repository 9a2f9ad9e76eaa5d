// The course of a run whose training data is a stream (train.open_vocabulary): from segment to
// segment. A segment is an epoch. Before it begins, the model gets the new features and labels, by
// a plan that moves no slot. A checkpoint has the sizes of its segment: after a rollback the model
// is as small again, and the shell brings the same segments again.
#pragma once

#include <cstdint>

#include "scheduler/core/run_state.h"

namespace dslide {

enum class StreamStep {
  kWait,      // for the segment, or for servers
  kEvaluate,  // the model on samples of the segment
  kTrain,     // the segment
};

// The next step between two segments. Asks for the next segment and resizes the model for it.
// kWait at another time, or without a stream.
StreamStep NextStreamStep(RunState* run, int64_t now_ms);

// The sizes that a new generation begins with: those of the newest checkpoint, else of the first
// segment, for which it changes `inputs`. Without a stream: the fixed sizes.
ModelShape ShapeToRestore(RunState* run);

}  // namespace dslide
