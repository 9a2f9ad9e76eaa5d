// Passes, checkpoints and the end: the part of SchedulerCore that takes a run from pass to pass.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "scheduler/core/scheduler_core.h"

namespace dslide {

// Ends the pass if all its batches count, on all servers; goes on to the next one if nothing stands
// against it; begins a checkpoint if one is due.
void SchedulerCore::Proceed(int64_t now_ms) {
  if (!InPass()) return;
  if (pass().complete() && pass().AllCommitted(inputs_, roster())) {
    if (pass().evaluating()) {
      EndEvaluation(now_ms);
    } else {
      pass().EndEpoch(inputs_, &out_);
    }
  }
  if (InPass() && pass().between_passes() && !stop_wanted_) {
    // The last epoch's end is in a checkpoint before anything else happens.
    if (!pass().training_complete() || checkpointer_.IsSaved(pass().BatchesToSave())) {
      return BeginNextPass(now_ms);
    }
    checkpointer_.Want();
  }
  MaybeCheckpoint(now_ms);
}

void SchedulerCore::EndEvaluation(int64_t now_ms) {
  const EvaluationResult result = pass().EndEvaluation();
  totals_.last_evaluation = result;
  out_.ShowEvaluation(result);
  if (result.final) return Finish({}, "training is finished", now_ms);
  clock_.Start(now_ms);
  pass().BeginEpoch(inputs_);
}

// Between two epochs: an evaluation, the next epoch, or the end.
void SchedulerCore::BeginNextPass(int64_t now_ms) {
  clock_.Stop(roster().cpu_seconds(), now_ms);
  const bool last = pass().training_complete();
  const bool evaluate = inputs_.test != nullptr && inputs_.test->size() > 0 &&
                        (last || inputs_.config.train.evaluate_samples > 0);
  if (evaluate) {
    pass().BeginEvaluation(inputs_, last, inverse_propensities_);
  } else if (last) {
    Finish({}, "training is finished", now_ms);
  } else {
    clock_.Start(now_ms);
    pass().BeginEpoch(inputs_);
  }
}

// Begins a checkpoint if one is due and the plan is not about to change. Servers cut where they
// are. In asynchronous training they know which batches their rows have taken, so what counts now
// is in every shard, and what is half done is not done twice after a restore. In synchronous
// training the request says which steps they hold.
void SchedulerCore::MaybeCheckpoint(int64_t now_ms) {
  if (!InPass()) return;
  checkpointer_.WantAfterInterval(now_ms);
  if (!checkpointer_.Due(stop_wanted_, now_ms) || change().paused() || !Settled()) return;
  if (checkpointer_.IsSaved(pass().BatchesToSave())) {
    checkpointer_.AnswerWaiters("", roster(), &out_);
    return AfterCheckpoint(now_ms);
  }
  checkpointer_.Begin(inputs_, plan(), roster(),
                      {pass().WorkToSave(inputs_), pass().told().value_or(0), stop_wanted_}, &out_);
}

SchedulerCore::Effects SchedulerCore::OnManifest(const Status& written, int64_t now_ms) {
  if (!checkpointer_.round()) return Drain();  // a recovery came in between: it is complete
  const Status status =
      checkpointer_.OnManifest(written, WaitsForCheckpoint(), now_ms, &out_, roster());
  if (!status.ok()) Finish(status, "a checkpoint failed", now_ms);
  if (!written.ok()) return Drain();
  // Servers that stop with the run leave with its last checkpoint, not with an earlier one.
  if (!stop_wanted_ || StopsWithLastCheckpoint()) {
    checkpointer_.AnswerWaiters("", roster(), &out_);
  }
  AfterCheckpoint(now_ms);
  return Drain();
}

void SchedulerCore::AfterCheckpoint(int64_t now_ms) {
  checkpointer_.OnComplete(now_ms);
  if (!StopsWithLastCheckpoint()) return Proceed(now_ms);
  const Error stopped{
      ErrorKind::kPreempted,
      fmt::format("stopped after {}; the checkpoint is {}",
                  Plural(checkpointer_.saved_batches().value_or(0), "batch", "batches"),
                  checkpointer_.newest_directory())};
  Finish(stopped, "stopped on request", now_ms);
}

void SchedulerCore::OnCheckpointNow(const Member& member, const Message& message, int64_t now_ms) {
  if (!InPass() && !Interrupted()) {
    return out_.Reply(member, message,
                      ErrorReply{ErrorCode::kRefused, "not training now; nothing to save"});
  }
  checkpointer_.WantFor(member.incarnation, message.envelope.sequence, now_ms);
  MaybeCheckpoint(now_ms);
}

// The outcome of a run that stops with what was saved before: without all servers there is no other
// checkpoint.
Error SchedulerCore::StoppedWithoutServers() const {
  if (checkpointer_.newest()) {
    return {ErrorKind::kPreempted, fmt::format("stopped while servers were missing; the checkpoint "
                                               "is {}",
                                               checkpointer_.newest_directory())};
  }
  const bool began = pass().counted().batches > 0;
  return TryLater(fmt::format("stopped {}; nothing was saved",
                              began ? "while servers were missing" : "before training began"));
}

void SchedulerCore::Finish(Status outcome, const std::string& reason, int64_t now_ms) {
  if (stage_ == Stage::kFinished) return;
  if (clock_.running()) clock_.Stop(roster().cpu_seconds(), now_ms);
  outcome_ = std::move(outcome);
  stage_ = Stage::kFinished;
  pass().Stop();
  out_.Record(LedgerStopped{outcome_.ok()});
  const Shutdown shutdown{
      reason, outcome_.ok() ? 0u : static_cast<uint32_t>(ExitCode(outcome_.error().kind))};
  for (const Role role : {Role::kWorker, Role::kServer, Role::kObserver}) {
    out_.SendToAll(roster(), role, shutdown);
  }
}

// What holds between two calls, whatever has happened.
void SchedulerCore::CheckInvariants() const {
  if (stage_ == Stage::kFinished) return;  // nothing is decided any more
  cluster_.seats.CheckInvariants(roster(), inputs_.config.cluster.slots);
  pass().CheckInvariants(inputs_);
  change().CheckInvariants();
  checkpointer_.CheckInvariants();
  balancer_.CheckInvariants();
  advisor_.CheckInvariants();

  DSLIDE_CHECK(cluster_.seats.live() || stage_ == Stage::kGathering);
  DSLIDE_CHECK(!InPass() || pass().begun());
  DSLIDE_CHECK(stage_ != Stage::kLoading || !pass().begun());
  DSLIDE_CHECK(!clock_.running() || Training());
  DSLIDE_CHECK(!change().has_wave() || InPass());
  DSLIDE_CHECK(!change().switching() || cluster_.seats.Switched());
  DSLIDE_CHECK(!change().switching() || !checkpointer_.round());
  DSLIDE_CHECK(!checkpointer_.round() || (InPass() && !change().paused()));
}

}  // namespace dslide
