#include "scheduler/core/scheduler_core.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/nearest.h"
#include "common/base/plural.h"
#include "common/log/events.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "common/run/tickets.h"
#include "common/security/keys.h"
#include "scheduler/base/events.h"
#include "scheduler/core/auditing.h"
#include "scheduler/core/replanning.h"
#include "scheduler/core/run_course.h"
#include "scheduler/core/seating.h"
#include "scheduler/core/stream_course.h"
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
constexpr int64_t kAuditsMs = 100;          // between looks at all audits
constexpr uint32_t kMostMalformed = 20;     // of one member
constexpr size_t kLongestErrorShown = 500;  // bytes
constexpr size_t kMostBounds = 1000;        // characters of a server's text about its bounds
constexpr size_t kMostReason = 200;         // characters of a server's reason for an offence

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
    Dispatch(member, message, now_ms);
  }
  const bool frequent = IsFrequent(message.body);
  if (!frequent) TendSeats(&run_, now_ms);
  // Heartbeats, most of all messages, free no work.
  if (!std::holds_alternative<Heartbeat>(message.body)) ServePending(now_ms);
  return frequent ? run_.out.Drain() : Drain();
}

// `member` may be gone afterwards.
void SchedulerCore::Dispatch(Member* member, const Message& message, int64_t now_ms) {
  const bool of_this_plan = message.envelope.plan_version == run_.plan().version;
  const bool current = run_.cluster.seats.IsOfThisGeneration(message.envelope.plan_version);
  const bool finished = run_.Finished();
  if (const auto* ready = std::get_if<Ready>(&message.body)) {
    OnReady(&run_, member, *ready, now_ms);
    TendStream(&run_, now_ms);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message.body)) {
    OnHeartbeat(member, *heartbeat, message, now_ms);
  } else if (std::holds_alternative<Leave>(message.body)) {
    LetGo(*member, "left", now_ms);
  } else if (std::holds_alternative<LeaseRequest>(message.body)) {
    OnLeaseRequest(*member, message, now_ms);
  } else if (const auto* done = std::get_if<BatchDone>(&message.body)) {
    OnBatchDone(member, *done, message, now_ms);
  } else if (const auto* saved = std::get_if<CheckpointDone>(&message.body)) {
    if (current) run_.checkpointer.OnServerFree(member->incarnation, *saved);
    if (!of_this_plan || finished) return;
    const Status status = run_.checkpointer.OnDone(*member, *saved, run_.WaitsForCheckpoint(),
                                                   now_ms, &run_.out, run_.cluster.roster);
    if (!status.ok()) Finish(&run_, status, "a checkpoint failed", now_ms);
    MaybeWriteManifest(&run_, now_ms);
  } else if (std::holds_alternative<CheckpointNow>(message.body)) {
    OnCheckpointNow(&run_, *member, message, now_ms);
  } else if (const auto* committed = std::get_if<StepsCommitted>(&message.body)) {
    if (!current || !member->seated || finished) return;
    member->committed = std::max(member->committed.value_or(0), committed->committed);
    Proceed(&run_, now_ms);
  } else if (const auto* audit = std::get_if<AuditReport>(&message.body)) {
    // Digests of an earlier plan are by another key of the server.
    if (!of_this_plan || !member->seated || finished || run_.pass().evaluating()) return;
    run_.pass().TakeAudit(member->incarnation, *audit);
    EndAuditOf(audit->batch, now_ms);
  } else if (const auto* offence = std::get_if<Offence>(&message.body)) {
    if (current && member->seated && !finished) OnOffence(*member, *offence, now_ms);
  } else if (const auto* moved = std::get_if<MoveReady>(&message.body)) {
    if (of_this_plan) run_.change().OnMoveReady(member->incarnation, *moved);
  } else if (const auto* drain = std::get_if<DrainServer>(&message.body)) {
    OnDrain(&run_, member, *drain, message, now_ms);
  } else if (std::holds_alternative<StatusRequest>(message.body)) {
    run_.out.ReplyWithStatus(member->peer, message.envelope.sequence);
  } else if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    // What a server cannot go on after: its slots do not load, or the model diverged.
    if (!current) return;
    const std::string line =
        fmt::format("{}: {}", member->name, Printable(error->text, kLongestErrorShown));
    run_.out.Notice({event::kMemberError, line, {{"name", member->name}}}, now_ms);
    if (!member->seated) return;
    const std::optional<uint32_t> index = IndexOf(run_.plan(), member->incarnation);
    if (!index || SlotsOf(run_.plan(), {*index}).empty()) return LetGo(*member, "failed", now_ms);
    Finish(&run_, Failed(line), "a server failed", now_ms);
  } else {
    run_.out.Reply(*member, message,
                   ErrorReply{ErrorCode::kRefused, fmt::format("the scheduler does not answer {}",
                                                               BodyName(message.body))});
  }
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

void SchedulerCore::OnHeartbeat(Member* member, const Heartbeat& heartbeat, const Message& message,
                                int64_t now_ms) {
  if (heartbeat.load && heartbeat.load->batches > 0) member->trained_ms = now_ms;
  if (heartbeat.load && run_.Training()) {  // an evaluation costs otherwise
    run_.cluster.loads.Report(member->incarnation, *heartbeat.load, heartbeat.memory_used_bytes,
                              &run_.plan());
  }
  const bool of_this_plan = message.envelope.plan_version == run_.plan().version;
  if (heartbeat.tier_rows > member->heartbeat.tier_rows) {
    const auto since = [&](uint64_t Heartbeat::*figure) {
      const uint64_t now = heartbeat.*figure, before = member->heartbeat.*figure;
      return static_cast<double>(now - std::min(now, before));
    };
    const double missed = since(&Heartbeat::tier_misses) / since(&Heartbeat::tier_rows);
    member->tier_hits = 1 - std::min(1.0, missed);
  }
  if (heartbeat.tier_bytes > 0 && !std::exchange(tier_named_, true)) {
    run_.out.Notice(
        {event::kTierInUse,
         fmt::format("{} has more rows than room in memory: the others are on its disk, in {} MB "
                     "(cluster.disk_tier), which takes longer",
                     member->name, heartbeat.tier_bytes >> 20),
         {{"server", member->name}, {"disk_bytes", heartbeat.tier_bytes}}});
  }
  member->heartbeat = heartbeat;
  member->heartbeat.load.reset();
  member->heartbeat.bounds = Printable(heartbeat.bounds, kMostBounds);
  auto& silent = member->heartbeat.silent_servers;
  if (!of_this_plan || silent.size() > run_.plan().servers.size()) silent.clear();
  if (heartbeat.longest_batch_us > 0) member->batch_us = heartbeat.longest_batch_us;
  if (member->seated && run_.Training() && !IsSynchronous(run_.inputs.config.train)) {
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

void SchedulerCore::OnLeaseRequest(const Member& member, const Message& message, int64_t now_ms) {
  const bool has_data = std::get<LeaseRequest>(message.body).has_data;
  const Generation::Request request{member.incarnation, message.envelope.sequence, has_data};
  run_.generation.Forget(member.incarnation);
  const bool up_to_date = run_.cluster.seats.IsOfThisGeneration(message.envelope.plan_version);
  if (up_to_date && run_.MayLease() &&
      run_.generation.GiveLease(request, run_.inputs, run_.roster(), run_.offences, now_ms,
                                &run_.advisor, &run_.out)) {
    return;
  }
  run_.out.Reply(member, message, LeaseWait{kRetryMs, run_.Finished()});
  if (up_to_date) {
    run_.generation.pending.push_back(request);
  } else if (run_.InPass()) {
    run_.out.Send(member, run_.plan());
  }
}

// `member` may be gone afterwards.
void SchedulerCore::OnBatchDone(Member* member, const BatchDone& done, const Message& message,
                                int64_t now_ms) {
  run_.out.Reply(*member, message, Ack{});  // whatever becomes of it, it need not be sent again
  const uint32_t plan_version = message.envelope.plan_version;
  if (!run_.cluster.seats.IsOfThisGeneration(plan_version) || !run_.pass().IsOfThisPass(done)) {
    return;
  }
  const bool evaluated = done.predictions.offsets.size() > 1;
  if (evaluated != run_.pass().evaluating()) return;  // of the pass before
  const Incarnation worker = member->incarnation;
  const double weight = run_.pass().WeightOf(run_.inputs, done.batch);
  if (run_.pass().IsTakenBack(plan_version)) return run_.pass().GiveBack(worker, done.batch);
  const Plan* plan = run_.cluster.seats.PlanOf(plan_version);
  if (plan == nullptr) return run_.pass().GiveBack(worker, done.batch);  // too old to be checked
  const ReportFault fault = FaultOf(done, evaluated ? LeaseKind::kEvaluate : LeaseKind::kTrain,
                                    worker, *plan, weight, run_.inputs);
  run_.believed.Note(plan_version, worker, fault.why.empty());
  if (!fault.why.empty()) {
    run_.pass().GiveBack(worker, done.batch);
    return NoteOffence(worker, fmt::format("{} for {}", fault.why, NameOf(done.batch)),
                       EvidenceOf(fault, worker, now_ms), now_ms);
  }
  FollowAuditsIfChanged(&run_);
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
    const BatchDone bounded = Bounded(done, weight, run_.inputs);
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
  // Witnesses may have said all before. `member` may be gone afterwards.
  if (evaluated || counts) EndAuditOf(done.batch, now_ms);
  Proceed(&run_, now_ms);
  MaybeWriteManifest(&run_, now_ms);
}

// A server that gives a worker false receipts, or tells it a false loss, makes it look like a liar.
// So a missing receipt is that server's complaint, and a loss is shown only.
SchedulerCore::Evidence SchedulerCore::EvidenceOf(const ReportFault& fault, Incarnation worker,
                                                  int64_t now_ms) {
  if (fault.is_loss) return {false, {}};
  if (fault.servers.empty()) return {true, {}};
  Offences::Accusers accusers;
  for (const Incarnation server : fault.servers) {
    if (run_.cluster.loads.Unproven(server)) continue;
    accusers.merge(run_.offences.Complain(server, worker, now_ms));
  }
  return {!accusers.empty(), accusers};
}

// Losses alone do not exclude a worker, because servers have told them and may lie.
void SchedulerCore::SlowDown(const std::string& contributor, const LossOutliers::Outlier& outlier,
                             int64_t now_ms) {
  for (const Member* worker : std::as_const(run_.cluster.roster).Of(Role::kWorker)) {
    if (ContributorOf(*worker) != contributor) continue;
    run_.offences.Slow(worker->incarnation, now_ms);
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

// A server that has not heard this life's key yet judges by another one; so a ticket is judged
// here.
void SchedulerCore::OnOffence(const Member& server, const Offence& offence, int64_t now_ms) {
  const Incarnation worker{offence.worker};
  const Member* accused = run_.roster().Find(worker);
  if (accused == nullptr || accused->role != Role::kWorker) return;
  if (run_.cluster.loads.Unproven(server.incarnation)) return;
  for (const LeaseKind kind : {LeaseKind::kTrain, LeaseKind::kEvaluate}) {
    if (IsTicket(run_.inputs.ticket_key.verify_key(), offence.ticket, worker, kind,
                 offence.batch)) {
      return;
    }
  }
  const Offences::Accusers accusers = run_.offences.Complain(server.incarnation, worker, now_ms);
  NoteOffence(worker,
              fmt::format("{} ({}), says {}", Printable(offence.reason, kMostReason),
                          NameOf(offence.batch), server.name),
              Evidence{!accusers.empty(), accusers}, now_ms);
}

// A worker that is not in the roster has never got a ticket of this incarnation of the scheduler,
// so no offence of it is noted.
void SchedulerCore::NoteOffence(Incarnation worker, const std::string& reason,
                                const Evidence& evidence, int64_t now_ms) {
  const Member* member = run_.roster().Find(worker);
  if (member == nullptr || member->role != Role::kWorker) return;
  run_.out.Decide({event::kViolation,
                   fmt::format("an offence: {} {}", member->name, reason),
                   {{"worker", member->name}, {"why", reason}}},
                  now_ms);
  const bool counts = evidence.counts && run_.believed.ByAnother(run_.plan().version, worker);
  const Offences::Verdict verdict =
      run_.offences.Note(worker, reason, counts, evidence.accusers, now_ms);
  if (!verdict.excluded) return;
  const std::vector<uint32_t> accusers(verdict.accusers.begin(), verdict.accusers.end());
  PutOut(worker, fmt::format("has done what no honest worker does {} times", Offences::kMost), true,
         accusers, now_ms);
}

// Also of one that has left: its key does not count any more.
void SchedulerCore::PutOut(Incarnation incarnation, const std::string& why, bool and_its_key,
                           const std::vector<uint32_t>& accusers, int64_t now_ms) {
  if (and_its_key) run_.out.Quarantine(incarnation, why, accusers);
  const Member* member = run_.roster().Find(incarnation);
  if (member == nullptr) return;
  run_.out.Decide(
      {event::kWorkerExcluded,
       fmt::format("{} {}{}: it is excluded{}", member->name, why, AccuserText(accusers),
                   and_its_key ? "" : ", but not its key: another member was honest"),
       {{"worker", member->name},
        {"why", why},
        {"accusers", accusers.size()},
        {"key_too", and_its_key}}},
      now_ms);
  if (!run_.inputs.keyed) {
    run_.put_out.insert(member->name);
    run_.put_out.insert(member->peer);
  }
  LetGo(*member, why, now_ms);
}

// The accusers on which a quarantine rests, in brackets; without accusers "".
std::string SchedulerCore::AccuserText(const std::vector<uint32_t>& accusers) const {
  if (accusers.empty()) return "";
  std::string names;
  for (const Member* server : run_.roster().Of(Role::kServer)) {
    if (!std::ranges::binary_search(accusers, Offences::IdentityOf(server->incarnation))) continue;
    names += (names.empty() ? "" : ", ") + server->name;
  }
  return fmt::format(" (accused by {})", names.empty() ? "servers that have left" : names);
}

// A report tells of one batch. Ticks look at all audits.
void SchedulerCore::EndAuditOf(const BatchId& batch, int64_t now_ms) {
  if (!run_.InPass() || run_.pass().AuditsOpen() == 0) return;
  FollowAuditsIfChanged(&run_);
  OnAudited(run_.pass().EndAuditOf(batch, now_ms), now_ms);
}

void SchedulerCore::EndAudits(int64_t now_ms) {
  if (!run_.InPass() || run_.pass().AuditsOpen() == 0) return;
  if (now_ms - run_.audits_ended_ms < kAuditsMs) return;
  run_.audits_ended_ms = now_ms;
  FollowAudits(&run_);
  OnAudited(run_.pass().EndAudits(now_ms), now_ms);
}

void SchedulerCore::OnAudited(const std::vector<Audits::Outcome>& ended, int64_t now_ms) {
  bool take_back = false, others_asked = false;
  for (const Audits::Outcome& outcome : ended) {
    take_back |= outcome.take_back;
    others_asked |= NoteAudit(outcome, &run_);
    for (const Audits::Liar& liar : outcome.liars) {
      const Member* member = run_.roster().Find(liar.worker);
      if (member != nullptr && member->role != Role::kWorker) continue;  // a server's word
      // Its key goes into quarantine as well, unless another member of it was honest.
      PutOut(liar.worker,
             fmt::format("{} something else for {} than two others did",
                         run_.pass().evaluating() ? "predicted" : "sent", NameOf(outcome.batch)),
             !liar.key_was_honest, {}, now_ms);
    }
  }
  if (ended.empty()) return;
  if (others_asked) FollowAudits(&run_);
  if (take_back && run_.pass().evaluating()) {
    const bool again = run_.pass().EvaluateAgain(run_.inputs);
    run_.out.Decide(
        {event::kEvaluationRepeated,
         again ? "a worker has lied: the evaluation begins again"
               : "a worker has lied again: its last predictions stay in this evaluation",
         {{"again", again}}},
        now_ms);
  } else if (take_back) {
    return TakeStepsBack(&run_, now_ms);
  }
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
  EndAudits(now_ms);
  MaybeCheckpoint(&run_, now_ms);
  MaybeWriteManifest(&run_, now_ms);
  ServePending(now_ms);
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
  TakeSegment(&run_, std::move(segment), now_ms);
  ServePending(now_ms);
  return Drain();
}

SchedulerCore::Effects SchedulerCore::OnStreamEnd(StreamEnd end, int64_t now_ms) {
  EndStream(&run_, std::move(end), now_ms);
  return Drain();
}

SchedulerCore::Effects SchedulerCore::RequestStop(int64_t now_ms) {
  if (run_.Finished()) return Drain();
  if (run_.stop_wanted) {
    Finish(&run_, Failed("stopped at once; what was trained since the last checkpoint is lost"),
           "stopped at once", now_ms);
  } else if (!run_.InPass()) {
    Finish(&run_, StoppedWithSaved(run_, "while servers were missing"), "stopped on request",
           now_ms);
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
  if (run_.Finished()) run_.stage = RunState::Stage::kGathering;  // no member has heard of the end
  Finish(&run_, status.error(), "the ledger could not be written", now_ms);
  run_.out.DropEntries();
  return Drain();
}

SchedulerCore::Effects SchedulerCore::StopWithoutLedger(int64_t now_ms) {
  return OnLedgerFailure(StoppedWithSaved(run_, "while the ledger's disk had no room"), now_ms);
}

void SchedulerCore::ServePending(int64_t now_ms) {
  if (!run_.MayLease()) return;
  run_.generation.ServePending(run_.inputs, run_.roster(), run_.offences, now_ms, &run_.advisor,
                               &run_.out);
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
