#include "scheduler/core/scheduler_core.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/log/events.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "common/security/keys.h"
#include "scheduler/base/events.h"
#include "scheduler/core/recovery.h"
#include "scheduler/core/replanning.h"
#include "scheduler/core/run_course.h"
#include "scheduler/core/run_end.h"
#include "scheduler/core/seating.h"
#include "scheduler/members/planned_servers.h"
#include "scheduler/pass/report_check.h"

namespace dslide {
namespace {

// The contributor for which a batch of a member counts: its key, or without a key its name.
const std::string& ContributorOf(const Member& member) {
  return member.key.empty() ? member.name : member.key;
}

constexpr uint32_t kRetryMs = 1000;  // until a worker that got no work asks again
constexpr int64_t kSendAgainMs = 10000;
constexpr uint32_t kMostMalformed = 20;     // of one member
constexpr size_t kLongestErrorShown = 500;  // bytes
constexpr size_t kMostBounds = 1000;        // characters of a server's text about its bounds

// What thousands of members send all the time changes no seat. Ticks look after the seats anyway.
bool IsFrequent(const Body& body) {
  return std::holds_alternative<Heartbeat>(body) || std::holds_alternative<LeaseRequest>(body) ||
         std::holds_alternative<BatchDone>(body);
}

}  // namespace

SchedulerCore::SchedulerCore(RunInputs inputs, int64_t now_ms) : run_(std::move(inputs), now_ms) {}

SchedulerCore::Effects SchedulerCore::Handle(const PeerId& from, const Message& message,
                                             int64_t now_ms) {
  const Envelope& envelope = message.envelope;
  const auto refuse = [&](std::string text) {
    run_.out.Reply(from, envelope.sequence, ErrorReply{ErrorCode::kWrongRun, std::move(text)});
    return Drain();
  };
  if (std::holds_alternative<Join>(message.body)) {
    OnJoin(&run_, from, message, false, now_ms);
  } else if (std::holds_alternative<Leave>(message.body) &&
             run_.cluster.admission.Withdraw(from, envelope.incarnation)) {
    return Drain();
  } else {
    if (envelope.run != run_.inputs.run) return refuse("another run; join again");
    Member* member = run_.cluster.roster.Heard(envelope.incarnation, from, now_ms);
    if (member == nullptr) return refuse("not in the roster; join again");
    std::visit([&](const auto& body) { On(member, body, message, now_ms); }, message.body);
  }
  const bool frequent = IsFrequent(message.body);
  if (!frequent) TendSeats(&run_, now_ms);
  // Heartbeats, most of all messages, free no work.
  if (!std::holds_alternative<Heartbeat>(message.body)) {
    ServePending(now_ms);
    MaybeWriteManifest(&run_, now_ms);  // last: leases do not wait for its disk
  }
  return frequent ? run_.out.Drain() : Drain();
}

bool SchedulerCore::IsCurrent(const Message& message) const {
  return run_.cluster.seats.IsOfThisGeneration(message.envelope.plan_version);
}

bool SchedulerCore::IsOfThisPlan(const Message& message) const {
  return message.envelope.plan_version == run_.plan().version;
}

bool SchedulerCore::IsOfSeat(const Member& server, const Message& message) const {
  return IsCurrent(message) && server.seated && !run_.Finished();
}

void SchedulerCore::On(Member* member, const Ready& ready, const Message&, int64_t now_ms) {
  OnReady(&run_, member, ready, now_ms);
  TendStream(&run_, now_ms);
}

void SchedulerCore::On(Member* member, const Leave&, const Message&, int64_t now_ms) {
  LetGo(*member, "left", now_ms);
}

void SchedulerCore::On(Member* member, const CheckpointDone& saved, const Message& message,
                       int64_t now_ms) {
  if (IsCurrent(message)) run_.checkpointer.OnServerFree(member->incarnation, saved);
  if (!IsOfThisPlan(message) || run_.Finished()) return;
  const Status status = run_.checkpointer.OnDone(*member, saved, run_.WaitsForCheckpoint(), now_ms,
                                                 &run_.out, run_.cluster.roster);
  if (!status.ok()) Finish(&run_, status, run_end::kCheckpointFailed, now_ms);
}

void SchedulerCore::On(Member* member, const CheckpointNow&, const Message& message,
                       int64_t now_ms) {
  OnCheckpointNow(&run_, *member, message, now_ms);
}

void SchedulerCore::On(Member* member, const StepsCommitted& steps, const Message& message,
                       int64_t now_ms) {
  if (!IsOfSeat(*member, message)) return;
  member->committed = std::max(member->committed.value_or(0), steps.committed);
  Proceed(&run_, now_ms);
}

void SchedulerCore::On(Member* member, const MoveReady& moved, const Message& message, int64_t) {
  if (IsOfThisPlan(message)) run_.change().OnMoveReady(member->incarnation, moved);
}

void SchedulerCore::On(Member* member, const DrainServer& drain, const Message& message,
                       int64_t now_ms) {
  OnDrain(&run_, member, drain, message, now_ms);
}

void SchedulerCore::On(Member* member, const StatusRequest&, const Message& message, int64_t) {
  run_.out.ReplyWithStatus(member->peer, message.envelope.sequence);
}

// A server cannot load its slots, or the model has diverged.
void SchedulerCore::On(Member* member, const ErrorReply& error, const Message& message,
                       int64_t now_ms) {
  if (!IsCurrent(message)) return;
  const std::string line =
      fmt::format("{}: {}", member->name, Printable(error.text, kLongestErrorShown));
  run_.out.Notice({event::kMemberError, line, {{"name", member->name}}}, now_ms);
  if (!member->seated) return;
  const std::optional<uint32_t> index = IndexOf(run_.plan(), member->incarnation);
  if (!index || SlotsOf(run_.plan(), {*index}).empty()) return LetGo(*member, "failed", now_ms);
  Finish(&run_, Failed(line), run_end::kServerFailed, now_ms);
}

template <typename Other>
void SchedulerCore::On(Member* member, const Other& body, const Message& message, int64_t now_ms) {
  if constexpr (TrustPolicy::kTakes<Other>) {
    if (!IsOfSeat(*member, message)) return;
    const uint32_t version = message.envelope.plan_version;
    return Settle(run_.trust.On(body, *member, version, run_.Trusting(), now_ms), now_ms);
  }
  run_.out.Reply(*member, message,
                 ErrorReply{ErrorCode::kRefused, fmt::format("the scheduler does not answer {}",
                                                             BodyName(message.body))});
}

// `member` is gone afterwards.
void SchedulerCore::LetGo(const Member& member, const std::string& why, int64_t now_ms) {
  if (run_.Finished()) return run_.cluster.roster.Remove(member.incarnation);
  run_.cluster.Drop(member, false, why, run_.pass().Return(member.incarnation), now_ms, &run_.out);
}

void SchedulerCore::NameKey(Incarnation member, const std::string& key) {
  if (Member* found = run_.cluster.roster.Find(member)) found->key = key;
}

SchedulerCore::Effects SchedulerCore::Expel(Incarnation member, const std::string& why,
                                            int64_t now_ms) {
  if (const Member* found = run_.cluster.roster.Find(member)) {
    LetGo(*found, why, now_ms);
    TendSeats(&run_, now_ms);
    ServePending(now_ms);
  }
  return Drain();
}

SchedulerCore::Effects SchedulerCore::OnMalformed(const PeerId& from, int64_t now_ms) {
  const Member* found = run_.roster().At(from);
  Member* member = found == nullptr ? nullptr : run_.cluster.roster.Find(found->incarnation);
  if (member == nullptr || ++member->malformed < kMostMalformed || run_.Finished()) return Drain();
  const std::string why = fmt::format("sends what are no messages ({} of them)", member->malformed);
  if (member->role != Role::kServer) return Expel(member->incarnation, why, now_ms);
  run_.cluster.LeaveOut({member}, why, now_ms, &run_.out);
  TendSeats(&run_, now_ms);
  return Drain();
}

HeartbeatReply SchedulerCore::OrdersFor(const Member& member, int64_t now_ms) const {
  return run_.advisor.OrdersFor(member, run_.change().PauseMs(now_ms));
}

SchedulerCore::Effects SchedulerCore::OnProbe(Incarnation server, Incarnation who, int64_t now_ms) {
  if (const auto applicant = run_.cluster.admission.Answered(server, who)) {
    OnJoin(&run_, applicant->peer, applicant->join, true, now_ms);
    TendSeats(&run_, now_ms);
  }
  return Drain();
}

void SchedulerCore::On(Member* member, const Heartbeat& heartbeat, const Message& message,
                       int64_t now_ms) {
  if (heartbeat.load && heartbeat.load->batches > 0) member->trained_ms = now_ms;
  if (heartbeat.load && run_.Training()) {  // an evaluation costs otherwise
    run_.cluster.loads.Report(member->incarnation, *heartbeat.load, heartbeat.memory_used_bytes,
                              &run_.plan());
  }
  const bool of_this_plan = IsOfThisPlan(message);
  const RowsOnDisk &now = heartbeat.on_disk, &before = member->heartbeat.on_disk;
  if (now.rows > before.rows) {
    const uint64_t missed = now.misses - std::min(now.misses, before.misses);
    member->memory_hits = 1 - std::min(1.0, static_cast<double>(missed) /
                                                static_cast<double>(now.rows - before.rows));
  }
  if (now.bytes > 0 && !std::exchange(disk_named_, true)) {
    run_.out.Notice(
        {event::kTierInUse,
         fmt::format("{} has more rows than room in memory: the others are on its disk, in {} MB "
                     "(cluster.disk_tier), which takes longer",
                     member->name, now.bytes >> 20),
         {{"server", member->name}, {"disk_bytes", now.bytes}}});
  }
  member->heartbeat = heartbeat;
  member->heartbeat.load.reset();
  member->heartbeat.bounds = Printable(heartbeat.bounds, kMostBounds);
  auto& silent = member->heartbeat.silent_servers;
  if (!of_this_plan || silent.size() > run_.plan().servers.size()) silent.clear();
  if (heartbeat.longest_batch_us > 0) member->batch_us = heartbeat.longest_batch_us;
  if (member->seated && run_.Training()) {
    run_.advisor.RenewTables(*member, run_.inputs.config, run_.cluster.roster, now_ms, &run_.out);
  }
  if (heartbeat.batches_in_flight == 0) run_.change().OnIdle(member->incarnation);
  run_.out.Reply(*member, message, run_.advisor.OrdersFor(*member, run_.change().PauseMs(now_ms)));
  // The server missed the plan that leaves it out, or the cluster has gone back to a checkpoint
  // since.
  if (member->draining && !member->seated && !of_this_plan) {
    run_.out.Send(*member, run_.cluster.seats.IsOfThisGeneration(message.envelope.plan_version)
                               ? Body(run_.plan())
                               : Body(Shutdown{"this server's slots have gone to others", 0}));
  }
  // It missed the plan.
  if (member->role == Role::kWorker && run_.InPass() && !of_this_plan)
    run_.out.Send(*member, run_.plan());
}

void SchedulerCore::On(Member* member, const LeaseRequest& asked, const Message& message,
                       int64_t now_ms) {
  const Generation::Request request{member->incarnation, message.envelope.sequence, asked.has_data};
  run_.generation.Forget(member->incarnation);
  const bool up_to_date = IsCurrent(message);
  if (up_to_date && run_.MayLease() &&
      run_.generation.GiveLease(request, run_.inputs, run_.roster(), run_.trust.offences(), now_ms,
                                &run_.advisor, &run_.out)) {
    return;
  }
  run_.out.Reply(*member, message, LeaseWait{kRetryMs, run_.Finished()});
  if (up_to_date) {
    run_.generation.pending.push_back(request);
  } else if (run_.InPass()) {
    run_.out.Send(*member, run_.plan());
  }
}

// `member` may be gone afterwards.
void SchedulerCore::On(Member* member, const BatchDone& done, const Message& message,
                       int64_t now_ms) {
  run_.out.Reply(*member, message, Ack{});  // whatever becomes of it, it need not be sent again
  const uint32_t plan_version = message.envelope.plan_version;
  if (!run_.cluster.seats.IsOfThisGeneration(plan_version) || !run_.pass().IsOfThisPass(done)) {
    return;
  }
  const bool evaluated = done.predictions.offsets.size() > 1;
  if (evaluated != run_.pass().evaluating()) return;  // of the pass before
  const Incarnation worker = member->incarnation;
  if (run_.pass().IsTakenBack(plan_version)) return run_.pass().GiveBack(worker, done.batch);
  const Plan* plan = run_.cluster.seats.PlanOf(plan_version);
  if (plan == nullptr) return run_.pass().GiveBack(worker, done.batch);  // too old to be checked
  if (!run_.trust.Accepts(done, worker, *plan, run_.Trusting(), now_ms)) return;
  const bool counts =
      evaluated ? run_.pass().CountEvaluated(run_.inputs, done, plan_version, now_ms, worker)
                : run_.pass().CountTrained(run_.inputs, done, now_ms, worker);
  if (counts) {  // repeated reports show no speed
    run_.advisor.OnBatch(worker, now_ms);
    run_.generation.NoteBatch(worker);
  }
  if (counts && plan_version == run_.plan().version) {
    run_.cluster.seats.OnBatch(now_ms);
    run_.cluster.loads.OnBatch(run_.plan());
  }
  if (evaluated && !counts) run_.pass().GiveBack(worker, done.batch);  // if it is not done
  if (counts && !evaluated) {
    const BatchDone bounded = TrustPolicy::Shown(done, run_.Trusting());
    run_.out.Record(LedgerCounted{done.batch, done.samples, member->name, member->key});
    run_.totals.work.Add(bounded);
    member->samples += done.samples;
    if (run_.drift && LossSeenByServers(done)) {
      const double loss = bounded.loss_sum / std::max(1u, done.samples);
      const std::string& contributor = ContributorOf(*member);
      run_.drift->Add(contributor, loss);
      if (const auto outlier = run_.outliers->Add(contributor, loss)) {
        SlowDown(contributor, *outlier, now_ms);
      }
    }
    if (run_.drift && run_.drift->drifting() && run_.InPass()) {
      for (const auto& [name, outlier] : run_.outliers->Suspects()) SlowDown(name, outlier, now_ms);
      return OnDrift(&run_, now_ms);
    }
    run_.pass().Commit(run_.inputs, run_.roster(), &run_.out);
  }
  if (evaluated || counts) {  // `member` may be gone afterwards
    Settle(run_.trust.OnReported(done.batch, run_.Trusting(), now_ms), now_ms);
  }
  Proceed(&run_, now_ms);
}

void SchedulerCore::SlowDown(const std::string& contributor, const LossOutliers::Outlier& outlier,
                             int64_t now_ms) {
  for (const Member* worker : std::as_const(run_.cluster.roster).Of(Role::kWorker)) {
    if (ContributorOf(*worker) != contributor) continue;
    run_.trust.Slow(worker->incarnation, now_ms);
    run_.out.Decide(
        {event::kWorkerSlowed,
         fmt::format("the batches of {} have a loss of {:.2f}, those of others of {:.2f}: it may "
                     "train on something else, and gets one batch every {} s for {} min",
                     worker->name, outlier.loss, outlier.others, Generation::kSlowedLeaseMs / 1000,
                     Offences::kSlowMs / 60000),
         {{"worker", worker->name}, {"loss", outlier.loss}, {"others_loss", outlier.others}}},
        now_ms);
  }
}

// Takes the consequences of a check of counted batches.
void SchedulerCore::Settle(TrustPolicy::Sequel sequel, int64_t now_ms) {
  if (sequel == TrustPolicy::Sequel::kNone) return;
  if (sequel == TrustPolicy::Sequel::kTakeStepsBack) return TakeStepsBack(&run_, now_ms);
  run_.pass().Commit(run_.inputs, run_.roster(), &run_.out);
  Proceed(&run_, now_ms);
}

SchedulerCore::Effects SchedulerCore::Tick(int64_t now_ms) {
  if (run_.Finished()) return Drain();
  TendMembers(&run_, now_ms);
  TendSeats(&run_, now_ms);
  if (run_.Finished()) return Drain();
  SendAgain(now_ms);
  TendPlan(&run_, now_ms);
  if (run_.InPass() && run_.pass().between_passes()) Proceed(&run_, now_ms);
  Advise(now_ms);
  // Servers make batches wait: for their step, or all while a server is missing. So does a pause.
  const bool all_wait = !run_.InPass() || run_.change().paused();
  const size_t expired = run_.pass().ExpireLeases(run_.inputs, all_wait, now_ms);
  if (expired > 0) {
    run_.out.Notice({event::kLeasesExpired,
                     Plural(expired, "lease") + " expired without progress",
                     {{"leases", expired}}});
  }
  Settle(run_.trust.Tick(run_.Trusting(), now_ms), now_ms);
  MaybeCheckpoint(&run_, now_ms);
  ServePending(now_ms);
  MaybeWriteManifest(&run_, now_ms);  // last: leases do not wait for its disk
  return Drain();
}

// What servers have not answered is sent again: a broken connection may have swallowed it.
void SchedulerCore::SendAgain(int64_t now_ms) {
  if (now_ms - run_.sent_again_ms < kSendAgainMs) return;
  run_.sent_again_ms = now_ms;
  for (const Member* server : run_.roster().Seated()) {
    if (!server->ready) run_.out.Send(*server, run_.plan());
    run_.checkpointer.SendAgain(*server, &run_.out);
    if (server->ready) run_.pass().CommitAgain(*server, &run_.out);
  }
}

// Hands the advisor what was measured.
void SchedulerCore::Advise(int64_t now_ms) {
  if (!run_.InPass() || run_.pass().between_passes() || !run_.advisor.Due(run_.roster(), now_ms))
    return;
  const SlotLoads& loads = run_.cluster.loads;
  const std::vector<Incarnation> planned = IncarnationsOf(run_.plan());
  const std::vector<bool> leaving = LeavingServers(run_.plan(), run_.roster());
  Advisor::Measures measures;
  for (size_t i = 0; i < planned.size(); ++i) {
    measures.servers.push_back(
        {run_.plan().servers[i].name, loads.Capacity(planned[i]), leaving[i]});
  }
  measures.run.unit_batches = run_.inputs.config.train.unit_batches;
  measures.run.batches_left = run_.pass().batches_left();
  measures.run.seconds_per_batch = loads.SecondsPerBatch(planned, run_.plan().slot_owner);
  measures.leases = run_.pass().OpenLeases();
  const TrainingStats& work = run_.totals.work;
  measures.bytes_per_batch =
      run_.inputs.config.train.batch * (work.BytesSentPerSample() + work.BytesReceivedPerSample());
  const auto seated = run_.roster().Seated();
  measures.servers_pause =
      !run_.Settled() || std::any_of(seated.begin(), seated.end(), [&](const Member* server) {
        return server->life.Suspect(now_ms);
      });
  measures.capacities_measured = loads.CapacitiesMeasured(planned);
  run_.advisor.Decide(run_.roster(), measures, now_ms, &run_.out);
  run_.balancer.Keep(run_.cluster.ForgetTheGone());
}

SchedulerCore::Effects SchedulerCore::OnSegment(StreamSegment segment, int64_t now_ms) {
  dslide::OnSegment(&run_, std::move(segment), now_ms);
  ServePending(now_ms);
  return Drain();
}

SchedulerCore::Effects SchedulerCore::OnStreamEnd(StreamEnd end, int64_t now_ms) {
  dslide::OnStreamEnd(&run_, std::move(end), now_ms);
  return Drain();
}

SchedulerCore::Effects SchedulerCore::RequestStop(int64_t now_ms) {
  if (run_.Finished()) return Drain();
  if (run_.stop_wanted) {
    Finish(&run_, Failed("stopped at once; what was trained since the last checkpoint is lost"),
           run_end::kStoppedAtOnce, now_ms);
  } else if (!run_.InPass()) {
    Finish(&run_, StoppedWithSaved(run_, "while servers were missing"), run_end::kStopped, now_ms);
  } else {
    run_.stop_wanted = true;
    run_.checkpointer.WantToStop(now_ms);
    if (!run_.checkpointer.IsSaved(run_.pass().BatchesToSave())) {
      run_.out.Notice(
          {event::kStopRequested, "stopping: writing a checkpoint; another signal stops at once"});
    }
    MaybeCheckpoint(&run_, now_ms);
  }
  return Drain();
}

SchedulerCore::Effects SchedulerCore::OnLedgerFailure(const Status& status, int64_t now_ms) {
  FinishAgain(&run_, status.error(), run_end::kLedgerFailed, now_ms);
  run_.out.DropEntries();
  return Drain();
}

SchedulerCore::Effects SchedulerCore::StopWithoutLedger(int64_t now_ms) {
  return OnLedgerFailure(StoppedWithSaved(run_, "while the ledger's disk had no room"), now_ms);
}

void SchedulerCore::ServePending(int64_t now_ms) {
  if (!run_.MayLease()) return;
  run_.generation.ServePending(run_.inputs, run_.roster(), run_.trust.offences(), now_ms,
                               &run_.advisor, &run_.out);
}

SchedulerCore::Effects SchedulerCore::OnRoom(bool fits, std::vector<std::string> kept,
                                             const std::string& problem, int64_t now_ms) {
  run_.checkpointer.SetRoom(fits, std::move(kept), now_ms);
  if (!fits && !run_.WaitsForCheckpoint()) {
    run_.checkpointer.AnswerWaiters(problem, run_.roster(), &run_.out);
  }
  MaybeCheckpoint(&run_, now_ms);
  return Drain();
}

SchedulerCore::Effects SchedulerCore::OnManifest(const Status& written, int64_t now_ms) {
  OnCheckpointWritten(&run_, written, now_ms);
  return Drain();
}

SchedulerCore::Effects SchedulerCore::Drain() {
  run_.CheckInvariants();
  return run_.out.Drain();
}

}  // namespace dslide
