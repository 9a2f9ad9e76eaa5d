// Checkpoints of a running cluster: the part of SchedulerCore that says what counts in one, and
// what comes after one.
#include <fmt/core.h>

#include <algorithm>

#include "common/run/step.h"
#include "scheduler/core/scheduler_core.h"

namespace dslide {

// Begins a checkpoint if one is due and the plan is not about to change. Servers cut where they
// are. In asynchronous training they know which batches their rows have taken, so what counts now
// is in every shard, and what is half done is not done twice after a restore. In synchronous
// training the request says which steps they hold.
void SchedulerCore::MaybeCheckpoint(int64_t now_ms) {
  if (!InPass()) return;
  checkpointer_.WantAfterInterval(now_ms);
  if (!checkpointer_.Due(stop_wanted_, now_ms) || pause_ || !Settled()) return;
  if (checkpointer_.IsSaved(BatchesToSave())) {
    checkpointer_.AnswerWaiters("", roster_, &out_);
    return AfterCheckpoint(now_ms);
  }
  checkpointer_.Begin(inputs_, plan_, roster_, {WorkToSave(), told_.value_or(0), stop_wanted_},
                      &out_);
}

// Batches of the run that a checkpoint of now would hold: in synchronous training those of whole
// steps.
uint64_t SchedulerCore::BatchesToSave() const {
  return steps_ ? epoch_ * book_->batches() + told_batches_ : batches_;
}

CountedWork SchedulerCore::WorkToSave() const {
  CountedWork work{epoch_, BatchesToSave(), samples_, {}};
  if (phase_ != Phase::kTraining || !book_) return work;  // between two epochs
  const uint32_t unit_batches = inputs_.config.train.unit_batches;
  for (uint64_t n = 0; n < book_->batches(); ++n) {
    const DoneBatch batch{static_cast<uint32_t>(n / unit_batches),
                          static_cast<uint32_t>(n % unit_batches)};
    if (steps_ ? n < told_batches_ : book_->IsDone(batch.unit, batch.index)) {
      work.done.push_back(batch);
    }
  }
  if (steps_) {
    work.samples = epoch_ * inputs_.train->size() +
                   std::min(inputs_.train->size(), told_batches_ * inputs_.config.train.batch);
  }
  return work;
}

void SchedulerCore::FinishIfFailed(const Status& checkpoint, int64_t now_ms) {
  if (!checkpoint.ok()) Finish(checkpoint, "a checkpoint failed", now_ms);
}

SchedulerCore::Effects SchedulerCore::ManifestWritten(const Status& status, int64_t now_ms) {
  if (!checkpointer_.round()) return Drain();  // a recovery came in between: it is complete
  FinishIfFailed(checkpointer_.OnManifest(status, WaitsForCheckpoint(), now_ms, &out_, roster_),
                 now_ms);
  if (!status.ok()) return Drain();
  // Servers that stop with the run leave with its last checkpoint, not with an earlier one.
  if (!stop_wanted_ || StopsWithLastCheckpoint()) checkpointer_.AnswerWaiters("", roster_, &out_);
  AfterCheckpoint(now_ms);
  return Drain();
}

// Whether the run ends with the newest checkpoint.
bool SchedulerCore::StopsWithLastCheckpoint() const {
  return stop_wanted_ &&
         (checkpointer_.last_round_stops() || checkpointer_.IsSaved(BatchesToSave()));
}

void SchedulerCore::AfterCheckpoint(int64_t now_ms) {
  checkpointer_.OnComplete(now_ms);
  if (StopsWithLastCheckpoint()) {
    const Error stopped{ErrorKind::kPreempted,
                        fmt::format("stopped after {} batches; the checkpoint is {}",
                                    checkpointer_.saved_batches().value_or(0), last_checkpoint())};
    return Finish(stopped, "stopped on request", now_ms);
  }
  Proceed(now_ms);
}

void SchedulerCore::OnCheckpointNow(Member& member, const Message& message, int64_t now_ms) {
  if (!InPass() && !interrupted_) {
    return out_.Reply(member, message,
                      ErrorReply{ErrorCode::kRefused, "not training now; nothing to save"});
  }
  checkpointer_.WantFor(member.incarnation, message.envelope.sequence, now_ms);
  MaybeCheckpoint(now_ms);
}

}  // namespace dslide
