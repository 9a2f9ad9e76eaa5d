// Epochs, steps and evaluations: the part of SchedulerCore that takes a run from pass to pass.
#include <fmt/core.h>

#include <algorithm>

#include "common/run/step.h"
#include "scheduler/core/scheduler_core.h"

namespace dslide {

// Begins where epoch_ and done_ say: at the start, after a recovery, or in a new life.
void SchedulerCore::BeginPass(int64_t now_ms) {
  const TrainConfig& train = inputs_.config.train;
  training_since_ms_ = now_ms;
  phase_ = Phase::kTraining;
  if (epoch_ >= train.epochs) {
    training_complete_ = true;
    Commit();
    return Proceed(now_ms);
  }
  StartEpoch();
  if (batches_ > 0) {
    out_.Notice(fmt::format("going on at epoch {}, {} of {} batches done", epoch_ + 1,
                            book_->done(), book_->batches()));
  }
  if (steps_) {
    out_.Notice(fmt::format("synchronous training: steps of {} samples, staleness {}",
                            train.target_batch, train.staleness));
  }
  Commit();  // tells the servers where the run begins
  Proceed(now_ms);
}

void SchedulerCore::StartEpoch() {
  const TrainConfig& train = inputs_.config.train;
  phase_ = Phase::kTraining;
  order_ = DataOrder::Epoch(*inputs_.train, inputs_.config.common.seed, epoch_, train.batch);
  book_.emplace(order_->batches(), train.unit_batches);
  leased_end_ = 0;
  lease_end_.reset();
  if (IsSynchronous(train)) {
    told_batches_ = 0;
    steps_.emplace(order_->batches(), BatchesPerStep(train),
                   epoch_ * StepsPerEpoch(train, inputs_.train->size()),
                   static_cast<uint64_t>(train.staleness));
  }
  for (const DoneBatch& done : done_) {
    book_->Restore(done.unit, done.index);
    const uint64_t number = uint64_t{done.unit} * train.unit_batches + done.index;
    leased_end_ = std::max(leased_end_, number + 1);
    if (steps_) steps_->Done(number);
  }
  done_.clear();
}

// Tells the servers which steps of the run count.
void SchedulerCore::Commit() {
  if (!IsSynchronous(inputs_.config.train)) return;
  const uint64_t complete =
      steps_ ? steps_->committed()
             : epoch_ * StepsPerEpoch(inputs_.config.train, inputs_.train->size());
  if (told_ == complete) return;
  told_ = complete;
  if (steps_) told_batches_ = steps_->CommittedBatches();
  out_.SyncLedger();
  out_.SendToSeated(roster_, CommitSteps{complete});
}

// Batches of the epoch below this may be worked on: the servers take them, by what they were told.
uint64_t SchedulerCore::OpenBatches() const {
  const TrainConfig& train = inputs_.config.train;
  return told_batches_ + (1 + static_cast<uint64_t>(train.staleness)) * BatchesPerStep(train);
}

// Whether all servers have applied what they were told counts.
bool SchedulerCore::AllCommitted() const {
  if (!IsSynchronous(inputs_.config.train)) return true;
  const auto servers = roster_.Seated();
  return std::all_of(servers.begin(), servers.end(),
                     [&](const Member* s) { return s->committed == told_; });
}

void SchedulerCore::OnStepsCommitted(Member& member, const StepsCommitted& done, int64_t now_ms) {
  if (!member.seated || phase_ == Phase::kFinished) return;
  member.committed = std::max(member.committed.value_or(0), done.committed);
  Proceed(now_ms);
}

// Ends the pass if all its batches count, on all servers; goes on to the next one if nothing stands
// against it; begins a checkpoint if one is due.
void SchedulerCore::Proceed(int64_t now_ms) {
  if (!InPass()) return;
  if (book_ && book_->complete() && AllCommitted()) FinishPass(now_ms);
  if (phase_ == Phase::kTraining && !book_ && !stop_wanted_) {
    // The last epoch's end is in a checkpoint before anything else happens.
    if (!training_complete_ || checkpointer_.IsSaved(BatchesToSave())) return NextPass(now_ms);
    checkpointer_.Want();
  }
  MaybeCheckpoint(now_ms);
}

void SchedulerCore::FinishPass(int64_t now_ms) {
  book_.reset();
  steps_.reset();
  if (phase_ == Phase::kEvaluating) return FinishEvaluation(now_ms);
  epoch_++;
  told_batches_ = 0;
  out_.Record(LedgerEpochDone{epoch_});
  out_.ShowEpochDone(epoch_);
  training_complete_ = epoch_ >= inputs_.config.train.epochs;
}

// Between two epochs: an evaluation, the next epoch, or the end.
void SchedulerCore::NextPass(int64_t now_ms) {
  Pause(now_ms);
  const bool evaluate = inputs_.test != nullptr && inputs_.test->size() > 0 &&
                        (training_complete_ || inputs_.config.train.evaluate_samples > 0);
  if (evaluate) {
    StartEvaluation(training_complete_);
  } else if (training_complete_) {
    Finish({}, "training is finished", now_ms);
  } else {
    training_since_ms_ = now_ms;
    StartEpoch();
  }
}

// Training time stops while an evaluation runs or servers are missing.
void SchedulerCore::Pause(int64_t now_ms) {
  training_ms_ = TrainingMillis(now_ms);
  training_since_ms_ = -1;
  training_cpu_seconds_ = roster_.cpu_seconds();
}

void SchedulerCore::StartEvaluation(bool final) {
  phase_ = Phase::kEvaluating;
  final_evaluation_ = final;
  const TrainConfig& train = inputs_.config.train;
  order_ = DataOrder::Evaluation(*inputs_.test, inputs_.config.common.seed,
                                 final ? 0 : train.evaluate_samples, train.batch);
  book_.emplace(order_->batches(), train.unit_batches);
  evaluator_.emplace(inverse_propensities_);
}

void SchedulerCore::FinishEvaluation(int64_t now_ms) {
  last_evaluation_ = EvaluationResult{epoch_, final_evaluation_, evaluator_->Result()};
  out_.ShowEvaluation(*last_evaluation_);
  phase_ = Phase::kTraining;
  if (final_evaluation_) return Finish({}, "training is finished", now_ms);
  training_since_ms_ = now_ms;
  StartEpoch();
}

void SchedulerCore::Finish(Status outcome, const std::string& reason, int64_t now_ms) {
  if (phase_ == Phase::kFinished) return;
  if (training_since_ms_ >= 0) Pause(now_ms);
  outcome_ = std::move(outcome);
  phase_ = Phase::kFinished;
  book_.reset();
  steps_.reset();
  out_.Record(LedgerStopped{outcome_.ok()});
  const Shutdown shutdown{
      reason, outcome_.ok() ? 0u : static_cast<uint32_t>(ExitCode(outcome_.error().kind))};
  for (const Role role : {Role::kWorker, Role::kServer, Role::kObserver})
    out_.SendToAll(roster_, role, shutdown);
}

}  // namespace dslide
