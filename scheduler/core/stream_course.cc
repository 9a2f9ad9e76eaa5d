#include "scheduler/core/stream_course.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/config/stored_config.h"
#include "common/run/slot_plan.h"
#include "scheduler/base/events.h"
#include "scheduler/core/plan_switch.h"

namespace dslide {
namespace {

// The model has these sizes, or is about to have them.
void ResizeTo(RunState* run, const ModelShape& shape, uint64_t preprocessor) {
  run->inputs.config = SizedBy(shape, std::move(run->inputs.config));
  run->inputs.preprocessor = preprocessor;
}

// `train` is this segment from now on.
void Load(RunState* run, StreamSegment segment) {
  ResizeTo(run, segment.shape, segment.preprocessor);
  run->inputs.segment = segment.shape.epoch;
  run->inputs.train = segment.data.get();
  run->inputs.test = segment.unseen.get();
  run->inverse_propensities = InversePropensities();  // a segment does not tell what is rare
  run->inputs.stream = std::move(segment);
}

// How well the model does on samples that it has not seen (prequential evaluation; Dawid 1984).
bool EvaluatesFirst(RunState* run) {
  const uint32_t number = run->inputs.segment;
  if (std::exchange(run->segment_evaluated, number) == number) return false;
  if (number == 1 || !run->pass().counted().done.empty()) return false;
  return run->inputs.test != nullptr && run->inputs.test->size() > 0;
}

StreamStep BeginSegment(RunState* run) {
  // Tells the servers of synchronous training where the segment begins. After a return to a
  // checkpoint some of its steps count already, or all.
  if (run->pass().counted().done.empty()) {
    run->pass().Commit(run->inputs, run->roster(), &run->out);
  }
  return EvaluatesFirst(run) ? StreamStep::kEvaluate : StreamStep::kTrain;
}

// Gives the model the sizes of the segment that has come. Where it has them already (all went back
// to a checkpoint), servers learn how many samples the segment has: steps depend on it.
void SwitchToSegment(RunState* run, int64_t now_ms) {
  Plan next = run->plan();
  StreamSegment segment = *std::exchange(run->next_segment, std::nullopt);
  if (next.shape.epoch != segment.shape.epoch) {
    next.shape = segment.shape;
    if (!segment.line.empty()) {
      run->out.Notice({event::kSegmentBegun, segment.line, {{"segment", segment.shape.epoch}}});
    }
  } else {
    next.shape.samples = segment.shape.samples;
  }
  run->generation.CancelChange(run->roster(), &run->out);
  Load(run, std::move(segment));
  SwitchTo(run, std::move(next), now_ms);
}

}  // namespace

StreamStep NextStreamStep(RunState* run, int64_t now_ms) {
  if (!run->inputs.is_stream() || !run->InPass() || !run->pass().between_passes() ||
      run->stop_wanted || run->pass().training_complete()) {
    return StreamStep::kWait;
  }
  const uint32_t wanted = run->pass().counted().epoch + 1;
  if (run->next_segment && run->next_segment->shape.epoch == wanted) {
    if (run->MaySwitch()) SwitchToSegment(run, now_ms);
  } else if (run->inputs.segment == wanted && run->plan().shape.epoch == wanted &&
             run->plan().shape.samples == run->inputs.train->size()) {
    if (run->Settled()) return BeginSegment(run);
  } else if (std::exchange(run->segment_wanted, wanted) != wanted) {
    run->out.FetchSegment(wanted);
  }
  return StreamStep::kWait;
}

ModelShape ShapeToRestore(RunState* run) {
  if (!run->inputs.is_stream()) return {};
  const auto& checkpoint = run->checkpointer.newest();
  if (!checkpoint) {
    DSLIDE_CHECK(run->inputs.first_segment);
    const StreamSegment& first = *run->inputs.first_segment;
    ResizeTo(run, first.shape, first.preprocessor);
    return first.shape;
  }
  // Written by this program: it was read when the run began, or is of this life.
  const Result<Config> config = ParseStoredConfig(checkpoint->config, "a manifest");
  DSLIDE_CHECK(config.ok());
  ModelShape shape;
  shape.epoch = checkpoint->shape_epoch;
  shape.features = config->model.features;
  shape.labels = config->model.labels;
  const auto& loaded = run->inputs.stream;
  if (loaded && loaded->shape.epoch == shape.epoch) shape.samples = loaded->shape.samples;
  ResizeTo(run, shape, checkpoint->preprocessor);
  return shape;
}

}  // namespace dslide
