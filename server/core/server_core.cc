#include "server/core/server_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/overloaded.h"
#include "common/log/events.h"

namespace dslide {

ServerCore::ServerCore(Identity identity)
    : identity_(std::move(identity)), out_(identity_.incarnation), load_(identity_.cpu_quota) {}

ServerCore::Actions ServerCore::Drain() {
  CheckInvariants();
  return out_.Drain();
}

ServerCore::Actions ServerCore::HandleScheduler(Message message, int64_t now_ms) {
  if (out_.link().AnswersEarlierLife(message.envelope)) return Drain();
  out_.link().Heard(now_ms);
  if (generation_) generation_->saver.HearScheduler();
  MeetScheduler(message.envelope.incarnation);
  // Null: the message is of another generation.
  ServerGeneration* current =
      generation_ && generation_->IsCurrent(message.envelope) ? &*generation_ : nullptr;
  const bool has_rows = current != nullptr && current->loaded;
  // A message that is dropped here is sent again by the scheduler.
  std::visit(
      Overloaded{
          [&](const JoinReply& reply) { OnJoinReply(message, reply); },
          [&](const Plan& plan) { OnPlan(plan, now_ms); },
          [&](const MoveSlots& move) {
            if (current == nullptr || !current->settled() || current->next_plan) return;
            current->slots.OnMoveSlots(move, current->seat, now_ms, &out_);
          },
          [&](const CheckpointRequest& checkpoint) {
            if (current == nullptr || !current->settled()) return;
            if (message.envelope.plan_version != plan_version()) return;
            current->saver.OnRequest(checkpoint, current->seat, current->requests.committed(),
                                     &out_);
          },
          [&](const CommitSteps& commit) {
            if (has_rows) current->requests.OnCommit(commit, current->seat, &out_);
          },
          [&](const DropBatches& drop) {
            if (has_rows) current->requests.DropWorker(drop.incarnation, &out_);
          },
          [&](const RebuildTables& rebuild) {
            // The scheduler sees by the heartbeats' round whether it was done.
            if (!has_rows) return;
            out_.Submit(SchedulerOrder{}, RequestJob{{}, std::make_shared<const Body>(rebuild)});
          },
          [&](const auto&) { OnDismissal(message, now_ms); },
      },
      message.body);
  return Drain();
}

// Answers to the requests of a server that leaves, dismissals, and errors.
void ServerCore::OnDismissal(const Message& message, int64_t now_ms) {
  const auto answer = stop_.Take(message, StopSituation(), now_ms, &out_);
  if (answer == OrderlyStop::Answer::kTaken) return;
  const auto* error = std::get_if<ErrorReply>(&message.body);
  const auto* shutdown = std::get_if<Shutdown>(&message.body);
  if (error != nullptr) OnSchedulerError(*error, now_ms);
  if (shutdown != nullptr) OnShutdown(*shutdown);
}

// A new life of the scheduler knows none of the workers' present lives, so it will never have them
// dropped: they have to begin new ones.
void ServerCore::MeetScheduler(Incarnation life) {
  const bool is_new = scheduler_ != Incarnation() && scheduler_ != life;
  scheduler_ = life;
  if (!is_new) return;
  SetKeys(std::nullopt);
  stop_.MeetScheduler();
  if (!generation_) return;
  generation_->slots.ForgetMove();
  for (const Incarnation worker : generation_->requests.Senders()) {
    generation_->requests.DropWorker(worker, &out_);
  }
}

void ServerCore::OnSchedulerError(const ErrorReply& error, int64_t now_ms) {
  if (error.code == ErrorCode::kFenced) {
    BeginNewLife(now_ms);
  } else if (error.code == ErrorCode::kWrongRun) {
    // A new life of the scheduler, or one that had given this server up.
    if (out_.link().MayJoinAgain(now_ms)) SendJoin(now_ms);
  } else if (!config_) {
    out_.Exit(error.code == ErrorCode::kIncompatible ? BadInput(error.text) : TryLater(error.text));
  } else {
    out_.Notice({event::kSchedulerRefused, "the scheduler refused: " + error.text});
  }
}

void ServerCore::OnShutdown(const Shutdown& shutdown) {
  Status outcome = DismissedBy(shutdown);
  if (outcome.ok()) {
    out_.Notice(
        {event::kDismissed, fmt::format("dismissed by the scheduler: {}", shutdown.reason)});
  }
  out_.Exit(std::move(outcome));  // the line of an error is the reason
}

bool ServerCore::AcceptsRequests() const {
  return out_.jobs().size() < kMaxOpen && !(generation_ && generation_->saver.saves_for_itself());
}

size_t ServerCore::requests() const {
  return out_.jobs().size() + (generation_ ? generation_->requests.waiting() : 0);
}

size_t ServerCore::senders() const {
  return generation_ ? generation_->requests.Senders().size() : 0;
}

bool ServerCore::MayAsk(const std::string& address, Incarnation server) const {
  if (!generation_) return false;
  const auto is_it = [&](const PlanServer& other) {
    return other.address == address && other.incarnation == server;
  };
  return std::ranges::any_of(generation_->seat.plan.servers, is_it) ||
         generation_->slots.MayAsk(is_it);
}

ServerCore::Actions ServerCore::HandleWorker(const PeerId& peer, Message message, int64_t now_us) {
  // Whoever measures the link gets a short answer, whatever else the message says.
  const bool measures = std::holds_alternative<StatusRequest>(message.body);
  if (measures || message.envelope.run != out_.link().run() || !generation_) {
    out_.Answer(peer, message.envelope.sequence,
                ErrorReply{ErrorCode::kWrongRun, "not in that run"});
  } else {
    generation_->OnRequest(peer, std::move(message), now_us, &out_);
  }
  offence_reports_.Send(out_.TakeOffences(), now_us, &out_);
  return Drain();
}

ServerCore::Actions ServerCore::HandleMalformed(const PeerId& peer, const Error& error,
                                                int64_t now_ms) {
  malformed_++;
  if (now_ms >= malformed_logged_ms_ + kMalformedEveryMs) {
    malformed_logged_ms_ = now_ms;
    malformed_answered_.clear();
    out_.Notice({event::kMessageMalformed,
                 fmt::format("malformed message number {}: {}", malformed_, error.message),
                 {{"messages", malformed_}}});
  }
  if (malformed_answered_.size() < kMalformedAnswers && malformed_answered_.insert(peer).second) {
    out_.Answer(peer, 0, ErrorReply{ErrorCode::kMalformed, error.message});
  }
  return Drain();
}

ServerCore::Actions ServerCore::HandleServer(Message message, int64_t now_us) {
  if (generation_) {
    generation_->slots.OnAnswer(std::move(message), generation_->seat, now_us / 1000, &out_);
  }
  return Drain();
}

ServerCore::Actions ServerCore::HandleOutcome(ExecutorPool::Outcome outcome, int64_t now_us) {
  if (auto finished = out_.Add(std::move(outcome))) {
    TakeResult(*std::move(finished), now_us);
  }
  return Drain();
}

// The purpose of a job decides who takes its result. Without a generation there are no jobs.
void ServerCore::TakeResult(OpenJobs::Finished job, int64_t now_us) {
  const auto take = [&](auto&& purpose) {
    using Kind = std::decay_t<decltype(purpose)>;
    if constexpr (std::is_same_v<Kind, SchedulerOrder>) {
      // Nobody waits.
    } else if constexpr (std::is_same_v<Kind, LoadMeasuring>) {
      load_.Take(purpose, job.parts, now_us / 1000);
    } else if constexpr (std::is_same_v<Kind, SlotLoading>) {
      if (generation_->OnLoaded(job.parts, &out_)) load_.Begin(now_us / 1000);
    } else if constexpr (std::is_same_v<Kind, SlotMoving>) {
      OnSlotMoved(*purpose.job, job.parts, now_us);
    } else {
      generation_->OnResult(std::move(purpose), std::move(job.parts), now_us, &out_);
    }
  };
  std::visit(take, std::move(job.purpose));
}

void ServerCore::OnSlotMoved(const SlotJob& job, const std::vector<JobReply>& parts,
                             int64_t now_us) {
  ServerGeneration& g = *generation_;
  switch (g.slots.Complete(job, parts, g.seat, now_us / 1000, &out_)) {
    case SlotMigration::Outcome::kGoesOn:
      return;
    case SlotMigration::Outcome::kAttached:
      g.CompletePlanSwitch(now_us, &out_);
      return FollowNextPlan(now_us / 1000);
    case SlotMigration::Outcome::kLost:
      return BeginNewLife(now_us / 1000);
  }
}

ServerCore::Actions ServerCore::HandleSaved(uint64_t job_id, CheckpointDone done, int64_t now_ms,
                                            bool lost) {
  if (!generation_) return Drain();
  Saver& saver = generation_->saver;
  const bool taken = saver.Take(job_id, std::move(done), lost, generation_->seat, &out_);
  if (taken && !saver.orphaned()) FollowNextPlan(now_ms);
  return Drain();
}

OrderlyStop::Situation ServerCore::StopSituation() const {
  return {loaded(),
          !without_slots(),
          generation_ && generation_->saver.saving(),
          generation_ ? generation_->seat.plan.servers.size() : 0,
          config_ ? config_->cluster.drain_s : 0,
          given_name_};
}

ServerCore::Actions ServerCore::RequestStop(int64_t now_ms) {
  stop_.Request(StopSituation(), now_ms, &out_);
  return Drain();
}

// Its part of the model is saved before it leaves; a scheduler that comes back finds it.
void ServerCore::LeaveWithoutScheduler(int64_t silent_ms) {
  const std::string why =
      fmt::format("nothing heard from the scheduler for {} s", silent_ms / 1000);
  const bool has_all = generation_ && generation_->settled();
  if (!has_all || !generation_->saver.knows_directory()) return out_.Exit(TryLater(why));
  generation_->saver.SaveAndLeave(why, generation_->seat, generation_->requests.committed(), &out_);
}

ServerCore::Actions ServerCore::Tick(const Heartbeat& usage, int64_t now_ms) {
  load_.NoteUsage(usage.cpu_seconds);
  stop_.Advance(StopSituation(), now_ms, &out_);
  SchedulerLink& link = out_.link();
  const int64_t patience_ms = SchedulerLink::PatienceMs(config());
  if (now_ms - link.heard_ms() > patience_ms) {
    LeaveWithoutScheduler(patience_ms);
    return Drain();
  }
  if (!config_) {
    if (link.JoinDue(now_ms)) SendJoin(now_ms);
    return Drain();
  }
  if (!keys_ && link.JoinDue(now_ms)) SendJoin(now_ms);  // the answer was lost
  if (loaded()) generation_->slots.Advance(generation_->seat, now_ms, &out_);
  if (!link.HeartbeatDue(now_ms, config_->cluster.heartbeat_ms)) return Drain();
  link.HeartbeatSent(now_ms);
  SendHeartbeat(usage);
  if (loaded()) {
    // Leases end after lease_timeout_ms without progress.
    const int64_t silence_ms =
        std::max<int64_t>(kSilentWorkerMs, 4 * int64_t{config_->cluster.lease_timeout_ms});
    generation_->requests.DropSilent(now_ms - silence_ms, &out_);
  }
  // For the next heartbeat.
  if (loaded() && !load_.measures()) {
    const LoadMeasuring measuring = load_.Measure(now_ms);
    out_.Submit(measuring, MeasureJob{measuring.tables});
  }
  return Drain();
}

void ServerCore::SendHeartbeat(const Heartbeat& usage) {
  Heartbeat beat = load_.TakeFigures();
  beat.cpu_seconds = usage.cpu_seconds;
  beat.peak_rss_bytes = usage.peak_rss_bytes;
  beat.bytes_sent = usage.bytes_sent;
  beat.bytes_received = usage.bytes_received;
  beat.hook_runs = usage.hook_runs;
  beat.hook_failures = usage.hook_failures;
  beat.disk_bytes_per_second = usage.disk_bytes_per_second;
  beat.disk_sync_us = usage.disk_sync_us;
  beat.malformed = malformed_;
  if (generation_) {
    beat.memory_used_bytes += generation_->requests.bytes();
    beat.bounds = generation_->requests.Bounds();
  }
  out_.ToScheduler(std::move(beat));
}

ServerCore::Actions ServerCore::Goodbye(const Heartbeat& usage) {
  if (!config_) return Drain();
  SendHeartbeat(usage);
  out_.ToScheduler(Leave{});
  return Drain();
}

void ServerCore::CheckInvariants() const {
  out_.jobs().CheckInvariants();
  load_.CheckInvariants();
  stop_.CheckInvariants(out_.link());
  if (!generation_) {
    DSLIDE_CHECK(out_.plan_version() == 0 && !load_.measures());
    return;
  }
  generation_->CheckInvariants(out_);
  DSLIDE_CHECK(config_ && generation_->seat.config.cluster.slots == config_->cluster.slots);
  DSLIDE_CHECK(generation_->seat.keys == keys_);
  DSLIDE_CHECK(generation_->loaded || !load_.measures());
}

}  // namespace dslide
