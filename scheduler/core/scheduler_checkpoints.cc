// Checkpoints of a running cluster: the part of SchedulerCore that decides when there is one and
// what counts in it. Training goes on meanwhile.
#include <fmt/core.h>

#include <algorithm>

#include "common/run/step.h"
#include "scheduler/core/scheduler_core.h"

namespace dslide {
namespace {

constexpr int64_t kAgainMs = 1000;              // after a round that was given up
constexpr int64_t kLastAgainMs = 10000;         // after the last one of a run failed
constexpr int64_t kLastPatienceMs = 600000;     // with it
constexpr int64_t kAgainAfterError = 30000;     // after one that failed
static_assert(kLastAgainMs < kLastPatienceMs);  // the last one is tried several times

}  // namespace

bool SchedulerCore::CheckpointDue(int64_t now_ms) {
  const uint32_t interval_s = inputs_.config.checkpoint.interval_s;
  if (interval_s > 0 && now_ms - last_checkpoint_ms_ >= int64_t{1000} * interval_s) {
    checkpoint_wanted_ = true;
  }
  return (checkpoint_wanted_ || stop_wanted_) && now_ms >= checkpoint_not_before_ms_;
}

// Begins a checkpoint if one is due and the plan is not about to change. Servers cut where they
// are. In asynchronous training they know which batches their rows have taken, so what counts now
// is in every shard, and what is half done is not done twice after a restore. In synchronous
// training the request says which steps they hold.
void SchedulerCore::MaybeCheckpoint(int64_t now_ms) {
  if (!InPass() || !CheckpointDue(now_ms) || round_ || pause_ || !Settled()) return;
  if (saved_batches_ == BatchesToSave()) {
    // Nothing counts that the last one lacks. Its name would be the same: never write over it.
    AnswerCheckpointWaiters("");
    return AfterCheckpoint(now_ms);
  }
  std::vector<std::pair<Incarnation, std::string>> servers;
  for (const PlanServer& server : plan_.servers) {
    servers.emplace_back(server.incarnation, roster_.Find(server.incarnation)->name);
    saving_.emplace(server.incarnation, CheckpointName(BatchesToSave()));
  }
  round_.emplace(CheckpointName(BatchesToSave()), std::move(servers));
  round_stops_ = stop_wanted_;
  // What counts now: a late report, or a step that is complete when a server is asked again, must
  // not be claimed by it.
  manifest_ = MakeManifest();
  checkpoint_request_ = MakeCheckpointRequest();
  effects_.sync_ledger = true;
  BroadcastToSeated(checkpoint_request_);
}

// Batches of the run that a checkpoint of now would hold: in synchronous training those of whole
// steps.
uint64_t SchedulerCore::BatchesToSave() const {
  return steps_ ? epoch_ * book_->batches() + told_batches_ : batches_;
}

CheckpointRequest SchedulerCore::MakeCheckpointRequest() const {
  CheckpointRequest request;
  request.name = round_->name();
  request.directory = inputs_.checkpoint_directory + "/" + round_->name();
  request.committed = told_.value_or(0);
  const size_t keep = std::min<size_t>(checkpoints_.size(), inputs_.config.checkpoint.keep);
  request.keep.assign(checkpoints_.end() - static_cast<ptrdiff_t>(keep), checkpoints_.end());
  return request;
}

Manifest SchedulerCore::MakeManifest() const {
  Manifest manifest;
  manifest.run = inputs_.run;
  manifest.name = round_->name();
  manifest.config = FormatConfig(inputs_.config);
  manifest.epoch = epoch_;
  manifest.batches = BatchesToSave();
  manifest.samples = samples_;
  manifest.train_samples = inputs_.train->size();
  manifest.ledger_position = ledger_entries_;
  manifest.slot_shard = plan_.slot_owner;                     // shards are in the plan's order
  if (phase_ != Phase::kTraining || !book_) return manifest;  // between two epochs
  const uint32_t unit_batches = inputs_.config.train.unit_batches;
  for (uint64_t n = 0; n < book_->batches(); ++n) {
    const DoneBatch batch{static_cast<uint32_t>(n / unit_batches),
                          static_cast<uint32_t>(n % unit_batches)};
    if (steps_ ? n < told_batches_ : book_->IsDone(batch.unit, batch.index)) {
      manifest.done.push_back(batch);
    }
  }
  if (steps_) {
    manifest.samples = epoch_ * inputs_.train->size() +
                       std::min(inputs_.train->size(), told_batches_ * inputs_.config.train.batch);
  }
  return manifest;
}

void SchedulerCore::OnCheckpointDone(const Member& member, const CheckpointDone& done,
                                     int64_t now_ms) {
  if (!round_ || phase_ == Phase::kFinished || round_->complete()) return;
  if (!member.seated || done.name != round_->name()) return;
  if (!done.error.empty() && done.retry) return GiveRoundUp(now_ms);
  round_->Take(member.incarnation, done);
  if (const std::string failure = round_->Failure(); !failure.empty()) {
    FailRound(Failed(failure), now_ms);
  } else if (round_->complete()) {
    manifest_.shards = round_->Shards();
    effects_.manifest = manifest_;
  }
}

// A server writes one checkpoint at a time: while it does it answers requests for others with
// `retry`. Another answer says that it is done with all that came before.
void SchedulerCore::NoteSaved(const Member& member, const CheckpointDone& done) {
  std::erase_if(saving_, [&](const auto& asked) {
    return asked.first == member.incarnation && (!done.retry || asked.second == done.name);
  });
}

bool SchedulerCore::NobodySaves() const {
  return std::none_of(saving_.begin(), saving_.end(),
                      [&](const auto& asked) { return roster_.Find(asked.first) != nullptr; });
}

// Nothing is wrong; another one is taken soon.
void SchedulerCore::GiveRoundUp(int64_t now_ms) {
  round_.reset();
  checkpoint_wanted_ = true;
  checkpoint_not_before_ms_ = now_ms + kAgainMs;
}

// The servers hold what it lacks, so it is tried again. If there is nothing to do but this
// checkpoint the run ends after a while.
void SchedulerCore::FailRound(const Error& error, int64_t now_ms) {
  const std::string line = fmt::format("checkpoint {}: {}", round_->name(), error.message);
  round_.reset();
  AnswerCheckpointWaiters(line);
  const bool nothing_else = stop_wanted_ || training_complete_;
  if (nothing_else) {
    if (last_failing_since_ms_ == 0) last_failing_since_ms_ = now_ms;
    if (now_ms - last_failing_since_ms_ > kLastPatienceMs) {
      return Finish(Error{error.kind, line}, "a checkpoint failed", now_ms);
    }
  }
  Notice(fmt::format("{}; {}, the last good one is {}", line,
                     nothing_else ? "trying again" : "training goes on",
                     last_checkpoint_.empty() ? "none" : last_checkpoint_));
  checkpoint_wanted_ = true;
  checkpoint_not_before_ms_ = now_ms + (nothing_else ? kLastAgainMs : kAgainAfterError);
}

SchedulerCore::Effects SchedulerCore::ManifestWritten(const Status& status, int64_t now_ms) {
  if (!round_) return Drain();  // a recovery came in between: it is complete all the same
  if (!status.ok()) {
    FailRound(status.error(), now_ms);
    return Drain();
  }
  last_checkpoint_ = inputs_.checkpoint_directory + "/" + round_->name();
  Notice(fmt::format("checkpoint {} written", last_checkpoint_));
  Record(LedgerCheckpointed{manifest_.name, manifest_.batches});
  checkpoints_.push_back(manifest_.name);
  saved_batches_ = manifest_.batches;
  checkpoint_ = manifest_;
  round_.reset();
  // Servers that stop with the run leave with its last checkpoint, not with an earlier one.
  if (!stop_wanted_ || StopsWithLastCheckpoint()) AnswerCheckpointWaiters("");
  AfterCheckpoint(now_ms);
  return Drain();
}

// Tells those who asked for a checkpoint where the last one lies, or why there is none.
void SchedulerCore::AnswerCheckpointWaiters(const std::string& error) {
  for (const auto& [incarnation, sequence] : checkpoint_waiters_) {
    const Member* member = roster_.Find(incarnation);
    if (member == nullptr) continue;
    CheckpointDone done;
    done.name = last_checkpoint_.substr(last_checkpoint_.rfind('/') + 1);
    done.shard = last_checkpoint_;
    Body answer =
        error.empty() ? Body(std::move(done)) : Body(ErrorReply{ErrorCode::kRefused, error});
    effects_.send.push_back({member->peer, std::move(answer), sequence});
  }
  checkpoint_waiters_.clear();
}

// Whether the run ends with the newest checkpoint.
bool SchedulerCore::StopsWithLastCheckpoint() const {
  return stop_wanted_ && (round_stops_ || saved_batches_ == BatchesToSave());
}

void SchedulerCore::AfterCheckpoint(int64_t now_ms) {
  checkpoint_wanted_ = false;
  last_checkpoint_ms_ = now_ms;
  if (StopsWithLastCheckpoint()) {
    const Error stopped{ErrorKind::kPreempted,
                        fmt::format("stopped after {} batches; the checkpoint is {}",
                                    saved_batches_.value_or(0), last_checkpoint_)};
    return Finish(stopped, "stopped on request", now_ms);
  }
  Proceed(now_ms);
}

void SchedulerCore::OnCheckpointNow(Member& member, const Message& message, int64_t now_ms) {
  if (!InPass() && !interrupted_) {
    return Reply(member, message,
                 ErrorReply{ErrorCode::kRefused, "not training now; nothing to save"});
  }
  checkpoint_wanted_ = true;
  checkpoint_not_before_ms_ = now_ms;  // whoever asks may have mended what went wrong
  checkpoint_waiters_.emplace_back(member.incarnation, message.envelope.sequence);
  MaybeCheckpoint(now_ms);
}

}  // namespace dslide
