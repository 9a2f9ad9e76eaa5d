// The passes of a run and the checkpoints between and within them: the second half of
// SchedulerCore.
#include <fmt/core.h>

#include <algorithm>

#include "common/config/step.h"
#include "scheduler/scheduler_core.h"

namespace dslide {

void SchedulerCore::StartEpoch() {
  const TrainConfig& train = inputs_.config.train;
  phase_ = Phase::kTraining;
  order_ = DataOrder::Epoch(*inputs_.train, inputs_.config.common.seed, epoch_, train.batch);
  book_.emplace(order_->batches(), train.unit_batches);
  if (IsSynchronous(train)) {
    counted_batches_ = 0;
    steps_.emplace(order_->batches(), BatchesPerStep(train),
                   epoch_ * StepsPerEpoch(train, inputs_.train->size()),
                   static_cast<uint64_t>(train.staleness));
  }
}

void SchedulerCore::FinishPass(int64_t now_ms) {
  book_.reset();
  steps_.reset();
  if (phase_ == Phase::kEvaluating) return FinishEvaluation(now_ms);
  epoch_++;
  effects_.epoch_done = epoch_;
  training_complete_ = epoch_ >= inputs_.config.train.epochs;
  AfterEpoch(now_ms);
}

// After an epoch: a checkpoint if one is due (always after the last epoch), then the next pass.
void SchedulerCore::AfterEpoch(int64_t now_ms) {
  const bool trained_here = !inputs_.resume || stats_.batches > inputs_.resume->batches;
  if (training_complete_ && trained_here) checkpoint_wanted_ = true;
  if (checkpoint_wanted_ || stop_wanted_) {
    MaybeCheckpoint(now_ms);
  } else {
    NextPass(now_ms);
  }
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

// Training time stops while an evaluation runs.
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
  effects_.evaluations.push_back(*last_evaluation_);
  phase_ = Phase::kTraining;
  if (final_evaluation_) return Finish({}, "training is finished", now_ms);
  training_since_ms_ = now_ms;
  StartEpoch();
  MaybeCheckpoint(now_ms);
}

// Starts the checkpoint that is wanted: in asynchronous training once no lease is out, so that
// every batch is wholly in it or not at all; in synchronous training once all servers have applied
// the same steps.
void SchedulerCore::MaybeCheckpoint(int64_t now_ms) {
  const uint32_t interval_s = inputs_.config.checkpoint.interval_s;
  if (interval_s > 0 && now_ms - last_checkpoint_ms_ > int64_t{1000} * interval_s) {
    checkpoint_wanted_ = true;
  }
  const bool due = checkpoint_wanted_ || stop_wanted_;
  if (!due || round_ || phase_ != Phase::kTraining) return;
  if (IsSynchronous(inputs_.config.train) ? !AllCommitted() : book_ && book_->leases() > 0) return;
  if (saved_batches_ == CountedBatches()) {
    // Nothing counts that the last checkpoint lacks. Its name would be the same: never write over
    // it.
    AnswerCheckpointWaiters();
    return ResumeAfterCheckpoint(now_ms);
  }
  std::vector<std::pair<Incarnation, std::string>> servers;
  for (const Member* server : roster_.Of(Role::kServer)) {
    servers.emplace_back(server->incarnation, server->name);
  }
  round_.emplace(CheckpointName(CountedBatches()), std::move(servers));
  manifest_ = MakeManifest();  // what counts now; a late report must not be claimed by it
  Broadcast(Role::kServer, CheckpointRequestOfRound());
}

// Batches of the run that a checkpoint of now would hold.
uint64_t SchedulerCore::CountedBatches() const {
  if (!steps_) return stats_.batches;
  return epoch_ * book_->batches() + counted_batches_;
}

CheckpointRequest SchedulerCore::CheckpointRequestOfRound() const {
  return {round_->name(), inputs_.checkpoint_directory + "/" + round_->name()};
}

void SchedulerCore::OnCheckpointDone(Member& member, const CheckpointDone& done) {
  if (!round_ || phase_ == Phase::kFinished || round_->complete()) return;
  round_->Take(member.incarnation, done);
  if (round_->complete() && round_->Failure().empty()) {
    manifest_.shards = round_->Shards();
    effects_.manifest = manifest_;
  }
  if (!round_->Failure().empty()) {
    const Error error = Failed(fmt::format("checkpoint {}: {}", round_->name(), round_->Failure()));
    Finish(error, "a checkpoint failed", member.heard_ms);
  }
}

Manifest SchedulerCore::MakeManifest() const {
  Manifest manifest;
  manifest.run = inputs_.run;
  manifest.name = round_->name();
  manifest.config = FormatConfig(inputs_.config);
  manifest.epoch = epoch_;
  manifest.batches = CountedBatches();
  manifest.samples = stats_.samples;
  manifest.train_samples = inputs_.train->size();
  const uint32_t unit_batches = inputs_.config.train.unit_batches;
  for (uint64_t n = 0; book_ && n < book_->batches(); ++n) {
    const DoneBatch batch{static_cast<uint32_t>(n / unit_batches),
                          static_cast<uint32_t>(n % unit_batches)};
    if (steps_ ? n < counted_batches_ : book_->IsDone(batch.unit, batch.index)) {
      manifest.done.push_back(batch);
    }
  }
  if (steps_) {
    const uint64_t in_epoch =
        std::min(inputs_.train->size(), counted_batches_ * inputs_.config.train.batch);
    manifest.samples = epoch_ * inputs_.train->size() + in_epoch;
  }
  return manifest;
}

SchedulerCore::Effects SchedulerCore::ManifestWritten(const Status& status, int64_t now_ms) {
  if (!status.ok()) {
    Finish(status.error(), "the manifest could not be written", now_ms);
    return Take();
  }
  last_checkpoint_ = inputs_.checkpoint_directory + "/" + round_->name();
  Notice(fmt::format("checkpoint {} written", last_checkpoint_));
  saved_batches_ = manifest_.batches;
  AnswerCheckpointWaiters();
  ResumeAfterCheckpoint(now_ms);
  return Take();
}

// Tells those who asked for a checkpoint where the last one lies.
void SchedulerCore::AnswerCheckpointWaiters() {
  for (const auto& [incarnation, sequence] : checkpoint_waiters_) {
    for (const Member* observer : roster_.Of(Role::kObserver)) {
      if (observer->incarnation != incarnation) continue;
      CheckpointDone done;
      done.name = last_checkpoint_.substr(last_checkpoint_.rfind('/') + 1);
      done.shard = last_checkpoint_;
      effects_.send.push_back({observer->peer, std::move(done), sequence});
    }
  }
  checkpoint_waiters_.clear();
}

void SchedulerCore::ResumeAfterCheckpoint(int64_t now_ms) {
  round_.reset();
  checkpoint_wanted_ = false;
  last_checkpoint_ms_ = now_ms;
  if (stop_wanted_) {
    const Error stopped{ErrorKind::kPreempted,
                        fmt::format("stopped after {} batches; the checkpoint is {}",
                                    saved_batches_.value_or(0), last_checkpoint_)};
    return Finish(stopped, "stopped on request", now_ms);
  }
  if (!book_) return NextPass(now_ms);
  // In the middle of an epoch: leases are given again, and steps that were held back count.
  Commit();
  Proceed(now_ms);
}

void SchedulerCore::OnCheckpointNow(Member& member, const Message& message) {
  if (phase_ != Phase::kTraining && phase_ != Phase::kEvaluating) {
    return Reply(member, message,
                 ErrorReply{ErrorCode::kRefused, "training has not started; nothing to save"});
  }
  checkpoint_wanted_ = true;
  checkpoint_waiters_.emplace_back(member.incarnation, message.envelope.sequence);
  MaybeCheckpoint(member.heard_ms);
}

}  // namespace dslide
