#include "scheduler/core/run_course.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/plural.h"
#include "scheduler/base/events.h"
#include "scheduler/core/run_end.h"
#include "scheduler/core/setting_choice.h"
#include "scheduler/core/stream_course.h"

namespace dslide {
namespace {

// For the batches that show whether a checkpoint is good, and for an alarm that does not come.
constexpr int64_t kTrialMs = 10000;
constexpr int64_t kDoubtMs = 60000;

// A stream may have ended because something is wrong with it.
Status EndOf(const RunState& run) { return run.stream_end ? run.stream_end->why : Status(); }

void BeginNextPass(RunState* run, int64_t now_ms);

// After the last epoch the held-out samples decide how the test samples are ranked.
Evaluation::Adjustment AdjustmentFor(const RunState& run, EvaluationSet set) {
  const auto& logs = run.inputs.label_logs;
  if (logs == nullptr) return {};
  if (set == EvaluationSet::kHeldOut && run.pass().training_complete()) {
    return {logs, {}, /*keeps_samples=*/true};
  }
  const float weight = run.adjustment ? run.adjustment->usual : 0;
  const bool keeps = run.inputs.keeps_rankings;
  if (set == EvaluationSet::kTest && (keeps || weight != 0)) return {logs, weight, keeps};
  return {};
}

void BeginEvaluation(RunState* run, EvaluationSet set) {
  run->pass().BeginEvaluation(run->inputs, set, run->inverse_propensities,
                              static_cast<int64_t>(run->roster().BatchMs()),
                              AdjustmentFor(*run, set));
}

void BeginEpoch(RunState* run, int64_t now_ms) {
  run->clock.Start(now_ms);
  run->pass().BeginEpoch(run->inputs);
}

void EndEvaluation(RunState* run, int64_t now_ms) {
  std::vector<EvaluatedSample> examples;
  EvaluationResult result = run->pass().EndEvaluation(&examples);
  if (result.set == EvaluationSet::kHeldOut) {
    run->generation.held_out_measured = result.epoch;
    OnHeldOutEvaluated(run, std::move(result), now_ms);
    return BeginNextPass(run, now_ms);
  }
  const RankingMetrics& m = result.metrics;
  if (m.without_labels == m.samples) {  // of a stream's segment, or of a part of the test file
    run->out.Notice({event::kNothingToMeasure,
                     fmt::format("nothing to measure: none of {} has a label",
                                 Plural(m.samples, "test sample")),
                     {{"samples", m.samples}}});
  } else {
    EvaluationResult& last = run->totals.last_evaluation.emplace(result);
    last.ranked.clear();
    run->out.ShowEvaluation(std::move(result), std::move(examples));
  }
  if (result.set == EvaluationSet::kTest)
    return Finish(run, EndOf(*run), run_end::kTrained, now_ms);
  BeginEpoch(run, now_ms);
}

// Between two epochs: evaluations, the next epoch, or the end.
void BeginNextPass(RunState* run, int64_t now_ms) {
  if (run->clock.running()) run->clock.Stop(run->roster().cpu_seconds(), now_ms);
  const bool last = run->pass().training_complete();
  if (run->inputs.is_stream() && !last) return TendStream(run, now_ms);
  if (run->inputs.HeldOutSamples() > 0 &&
      run->generation.held_out_measured != run->pass().counted().epoch) {
    return BeginEvaluation(run, EvaluationSet::kHeldOut);
  }
  if (!last && !ApplyChosenSettings(run, now_ms)) return;
  const bool evaluate = run->inputs.test != nullptr && run->inputs.test->size() > 0 &&
                        (last || run->inputs.config.train.evaluate_samples > 0);
  if (evaluate) {
    BeginEvaluation(run, last ? EvaluationSet::kTest : EvaluationSet::kTestPart);
  } else if (last) {
    Finish(run, EndOf(*run), run_end::kTrained, now_ms);
  } else {
    BeginEpoch(run, now_ms);
  }
}

void AfterCheckpoint(RunState* run, int64_t now_ms) {
  run->checkpointer.OnComplete(now_ms);
  if (!run->StopsWithLastCheckpoint()) return Proceed(run, now_ms);
  const Error stopped{
      ErrorKind::kPreempted,
      fmt::format("stopped after {}; the checkpoint is {}",
                  Plural(run->checkpointer.saved_batches().value_or(0), "batch", "batches"),
                  run->checkpointer.newest_directory())};
  Finish(run, stopped, run_end::kStopped, now_ms);
}

}  // namespace

void Proceed(RunState* run, int64_t now_ms) {
  if (!run->InPass()) return;
  if (run->pass().complete() && run->AllCommitted()) {
    if (run->pass().evaluating()) {
      EndEvaluation(run, now_ms);
    } else {
      run->pass().EndEpoch(run->inputs, &run->out);
    }
  }
  if (run->InPass() && run->pass().between_passes() && !run->stop_wanted) {
    // The last epoch's end is in a checkpoint before anything else happens.
    if (!run->pass().training_complete() ||
        run->checkpointer.IsSaved(run->pass().BatchesToSave())) {
      return BeginNextPass(run, now_ms);
    }
    run->checkpointer.Want();
  }
  MaybeCheckpoint(run, now_ms);
}

void TendStream(RunState* run, int64_t now_ms) {
  switch (NextStreamStep(run, now_ms)) {
    case StreamStep::kWait:
      return;
    case StreamStep::kEvaluate:
      return BeginEvaluation(run, EvaluationSet::kTestPart);
    case StreamStep::kTrain:
      BeginEpoch(run, now_ms);
      run->pass().Commit(run->inputs, run->roster(), &run->out);
      if (run->pass().complete()) Proceed(run, now_ms);
  }
}

void OnSegment(RunState* run, StreamSegment segment, int64_t now_ms) {
  if (run->Finished()) return;
  run->segment_wanted = 0;
  run->next_segment = std::move(segment);
  TendStream(run, now_ms);
}

void OnStreamEnd(RunState* run, StreamEnd end, int64_t now_ms) {
  if (run->Finished()) return;
  run->segment_wanted = 0;
  if (!run->InPass() || !run->pass().between_passes()) return;
  if (end.number != run->pass().counted().epoch + 1) return;
  run->stream_end = std::move(end);
  run->inputs.test = run->stream_end->test.get();
  run->pass().EndTraining();
  Proceed(run, now_ms);
}

// Begins a checkpoint if one is due and the plan is not about to change. Servers cut where they
// are. In asynchronous training they know which batches their rows have taken, so what counts now
// is in every shard, and what is half done is not done twice after a restore. In synchronous
// training the request says which steps they hold.
void MaybeCheckpoint(RunState* run, int64_t now_ms) {
  if (!run->InPass()) return;
  run->checkpointer.WantAfterInterval(now_ms);
  const bool last = run->WaitsForCheckpoint();
  if (!run->checkpointer.Due(run->stop_wanted, now_ms, last) || run->change().paused() ||
      !run->Settled())
    return;
  if (run->checkpointer.IsSaved(run->pass().BatchesToSave())) {
    run->checkpointer.AnswerWaiters("", run->roster(), &run->out);
    return AfterCheckpoint(run, now_ms);
  }
  run->checkpointer.Begin(run->inputs, run->plan(), run->roster(),
                          {run->pass().WorkToSave(run->inputs), run->pass().told().value_or(0),
                           run->stop_wanted, run->drift ? run->drift->batches() : 0, now_ms},
                          &run->out);
}

namespace {

// What bad gradients have done shows in the batches that follow them: a checkpoint is complete when
// some have followed and are no worse. Where none can follow, or somebody waits, it is complete at
// once, and where they come slowly after a while.
bool IsTrusted(const RunState& run, int64_t now_ms) {
  if (!run.drift || !run.drift->judges() || run.WaitsForCheckpoint() ||
      run.checkpointer.has_waiters() || !run.Training() || run.pass().between_passes()) {
    return true;
  }
  const int64_t waited_ms = now_ms - run.checkpointer.began_ms();
  const bool shown =
      run.drift->batches() >= run.checkpointer.seen() + DriftAlarm::kTrial || waited_ms > kTrialMs;
  return (shown && run.drift->calm()) || waited_ms > kDoubtMs;
}

}  // namespace

void MaybeWriteManifest(RunState* run, int64_t now_ms) {
  if (run->checkpointer.AwaitsManifest() && IsTrusted(*run, now_ms)) {
    run->checkpointer.WriteManifest(&run->out);
  }
}

void OnCheckpointNow(RunState* run, const Member& member, const Message& message, int64_t now_ms) {
  if (!run->InPass() && !run->Interrupted()) {
    return run->out.Reply(member, message,
                          ErrorReply{ErrorCode::kRefused, "not training now; nothing to save"});
  }
  run->checkpointer.WantFor(member.incarnation, message.envelope.sequence, now_ms);
  MaybeCheckpoint(run, now_ms);
}

void OnCheckpointWritten(RunState* run, const Status& written, int64_t now_ms) {
  if (!run->checkpointer.round()) return;  // a recovery came in between: it is complete
  const Status status = run->checkpointer.OnManifest(written, run->WaitsForCheckpoint(), now_ms,
                                                     &run->out, run->roster());
  if (!status.ok()) Finish(run, status, run_end::kCheckpointFailed, now_ms);
  if (!written.ok()) return;
  if (run->drift) run->drift->Saved();
  // Servers that stop with the run leave with its last checkpoint, not with an earlier one.
  if (!run->stop_wanted || run->StopsWithLastCheckpoint()) {
    run->checkpointer.AnswerWaiters("", run->roster(), &run->out);
  }
  AfterCheckpoint(run, now_ms);
}

}  // namespace dslide
