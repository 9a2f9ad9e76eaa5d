#include "scheduler/core/scheduler_core.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/plural.h"
#include "common/run/step.h"
#include "scheduler/members/planned_servers.h"

namespace dslide {
namespace {

constexpr uint32_t kRetryMs = 1000;  // until a worker that got no work asks again
constexpr int64_t kSendAgainMs = 10000;

// Servers of an earlier life may hold its state, unless they would work by another configuration.
bool ServersHoldState(const RunInputs& inputs) {
  return inputs.ledger.live && inputs.ledger.run.config == FormatConfig(inputs.config);
}

CountedWork WorkIn(const LedgerState& ledger) {
  return {ledger.epoch, ledger.batches, ledger.samples, ledger.done};
}

}  // namespace

SchedulerCore::SchedulerCore(RunInputs inputs, int64_t now_ms)
    : inputs_(std::move(inputs)),
      inverse_propensities_(*inputs_.train),
      started_ms_(now_ms),
      cluster_(inputs_, ServersHoldState(inputs_), now_ms),
      balancer_(inputs_.config),
      checkpointer_(inputs_),
      generation_(cluster_.seats.live() ? WorkIn(inputs_.ledger) : checkpointer_.Restore()),
      out_(inputs_.ledger.entries) {
  const std::string config = FormatConfig(inputs_.config);
  if (!inputs_.ledger.opened || inputs_.ledger.run.config != config) {
    out_.Record(LedgerOpened{inputs_.run, config, inputs_.train->size(), inputs_.train_checksum});
  }
}

SchedulerCore::Effects SchedulerCore::Handle(const PeerId& from, const Message& message,
                                             int64_t now_ms) {
  const Envelope& envelope = message.envelope;
  const auto refuse = [&](std::string text) {
    out_.Reply(from, envelope.sequence, ErrorReply{ErrorCode::kWrongRun, std::move(text)});
    return Drain();
  };
  if (std::holds_alternative<Join>(message.body)) {
    OnJoin(from, message, false, now_ms);
  } else {
    if (envelope.run != inputs_.run) return refuse("another run; join again");
    Member* member = cluster_.roster.Heard(envelope.incarnation, from, now_ms);
    if (member == nullptr) return refuse("not in the roster; join again");
    Dispatch(member, message, now_ms);
  }
  TendSeats(now_ms);
  // Heartbeats, most of all messages, free no work.
  if (!std::holds_alternative<Heartbeat>(message.body)) ServePending(now_ms);
  return Drain();
}

// `member` may be gone afterwards.
void SchedulerCore::Dispatch(Member* member, const Message& message, int64_t now_ms) {
  const bool of_this_plan = message.envelope.plan_version == plan_version();
  const bool current = cluster_.seats.IsOfThisGeneration(message.envelope.plan_version);
  const bool finished = stage_ == Stage::kFinished;
  if (const auto* ready = std::get_if<Ready>(&message.body)) {
    OnReady(member, *ready, now_ms);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message.body)) {
    OnHeartbeat(member, *heartbeat, message, now_ms);
  } else if (std::holds_alternative<Leave>(message.body)) {
    if (finished) return cluster_.roster.Remove(member->incarnation);
    cluster_.Drop(*member, false, "left", pass().Return(member->incarnation), now_ms, &out_);
  } else if (std::holds_alternative<LeaseRequest>(message.body)) {
    OnLeaseRequest(*member, message, now_ms);
  } else if (const auto* done = std::get_if<BatchDone>(&message.body)) {
    OnBatchDone(member, *done, message, now_ms);
  } else if (const auto* saved = std::get_if<CheckpointDone>(&message.body)) {
    if (current) checkpointer_.OnServerFree(member->incarnation, *saved);
    if (!of_this_plan || finished) return;
    const Status status =
        checkpointer_.OnDone(*member, *saved, WaitsForCheckpoint(), now_ms, &out_, cluster_.roster);
    if (!status.ok()) Finish(status, "a checkpoint failed", now_ms);
  } else if (std::holds_alternative<CheckpointNow>(message.body)) {
    OnCheckpointNow(*member, message, now_ms);
  } else if (const auto* committed = std::get_if<StepsCommitted>(&message.body)) {
    if (!current || !member->seated || finished) return;
    member->committed = std::max(member->committed.value_or(0), committed->committed);
    Proceed(now_ms);
  } else if (const auto* moved = std::get_if<MoveReady>(&message.body)) {
    if (of_this_plan) change().OnMoveReady(member->incarnation, *moved);
  } else if (const auto* drain = std::get_if<DrainServer>(&message.body)) {
    OnDrain(member, *drain, message, now_ms);
  } else if (std::holds_alternative<StatusRequest>(message.body)) {
    out_.ReplyWithStatus(member->peer, message.envelope.sequence);
  } else if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    // What a server cannot go on after: its slots do not load, or the model diverged.
    if (!current) return;
    const std::string line = fmt::format("{}: {}", member->name, error->text);
    out_.Notice(line);
    if (member->seated) Finish(Failed(line), "a server failed", now_ms);
  } else {
    out_.Reply(*member, message,
               ErrorReply{ErrorCode::kRefused,
                          fmt::format("the scheduler does not answer {}", BodyName(message.body))});
  }
}

SchedulerCore::Effects SchedulerCore::OnProbe(Incarnation server, Incarnation who, int64_t now_ms) {
  if (const auto applicant = cluster_.admission.Answered(server, who)) {
    OnJoin(applicant->peer, applicant->join, true, now_ms);
    TendSeats(now_ms);
  }
  return Drain();
}

void SchedulerCore::OnHeartbeat(Member* member, const Heartbeat& heartbeat, const Message& message,
                                int64_t now_ms) {
  if (heartbeat.load && heartbeat.load->batches > 0) member->trained_ms = now_ms;
  if (heartbeat.load && Training()) {  // an evaluation costs otherwise
    cluster_.loads.Report(member->incarnation, *heartbeat.load, heartbeat.memory_used_bytes);
  }
  const bool of_this_plan = message.envelope.plan_version == plan_version();
  member->heartbeat = heartbeat;
  member->heartbeat.load.reset();
  if (!of_this_plan) member->heartbeat.silent_servers.clear();
  if (heartbeat.longest_batch_us > 0) member->batch_us = heartbeat.longest_batch_us;
  if (member->seated && Training() && !IsSynchronous(inputs_.config.train)) {
    advisor_.RenewTables(*member, inputs_.config, cluster_.roster, now_ms, &out_);
  }
  if (heartbeat.batches_in_flight == 0) change().OnIdle(member->incarnation);
  out_.Reply(*member, message, advisor_.OrdersFor(*member, change().PauseMs(now_ms)));
  // The server missed the plan that leaves it out, or the cluster has gone back to a checkpoint
  // since.
  if (member->draining && !member->seated && !of_this_plan) {
    out_.Send(*member, cluster_.seats.IsOfThisGeneration(message.envelope.plan_version)
                           ? Body(plan())
                           : Body(Shutdown{"this server's slots have gone to others", 0}));
  }
  // It missed the plan.
  if (member->role == Role::kWorker && InPass() && !of_this_plan) out_.Send(*member, plan());
}

void SchedulerCore::OnLeaseRequest(const Member& member, const Message& message, int64_t now_ms) {
  const bool has_data = std::get<LeaseRequest>(message.body).has_data;
  const Generation::Request request{member.incarnation, message.envelope.sequence, has_data};
  generation_.Forget(member.incarnation);
  const bool up_to_date = cluster_.seats.IsOfThisGeneration(message.envelope.plan_version);
  if (up_to_date && MayLease() &&
      generation_.GiveLease(request, inputs_, roster(), now_ms, &advisor_, &out_)) {
    return;
  }
  out_.Reply(member, message, LeaseWait{kRetryMs, stage_ == Stage::kFinished});
  if (up_to_date) {
    generation_.pending.push_back(request);
  } else if (InPass()) {
    out_.Send(member, plan());
  }
}

void SchedulerCore::OnBatchDone(Member* member, const BatchDone& done, const Message& message,
                                int64_t now_ms) {
  out_.Reply(*member, message, Ack{});  // whatever becomes of it, it need not be sent again
  if (!cluster_.seats.IsOfThisGeneration(message.envelope.plan_version) ||
      !pass().IsOfThisPass(done))
    return;
  if (message.envelope.plan_version == plan_version()) cluster_.seats.OnBatch();
  advisor_.OnBatch(member->incarnation, now_ms);
  if (pass().evaluating()) {
    pass().CountEvaluated(inputs_, done, now_ms);
  } else if (done.predictions.offsets.size() <= 1 &&  // else of an evaluation before
             pass().CountTrained(inputs_, done, now_ms)) {
    out_.Record(LedgerCounted{done.batch, done.samples, member->name});
    totals_.work.Add(done);
    member->samples += done.samples;
    pass().Commit(inputs_, roster(), &out_);
  }
  Proceed(now_ms);
}

SchedulerCore::Effects SchedulerCore::Tick(int64_t now_ms) {
  if (stage_ == Stage::kFinished) return Drain();
  TendMembers(now_ms);
  TendSeats(now_ms);
  if (stage_ == Stage::kFinished) return Drain();
  SendAgain(now_ms);
  TendPlan(now_ms);
  Advise(now_ms);
  // Servers make batches wait: for their step, or all while a server is missing. So does a pause.
  const bool all_wait = !InPass() || change().paused();
  const size_t expired = pass().ExpireLeases(inputs_, all_wait, now_ms);
  if (expired > 0) out_.Notice(Plural(expired, "lease") + " expired without progress");
  MaybeCheckpoint(now_ms);
  ServePending(now_ms);
  return Drain();
}

// What servers have not answered is sent again: a broken connection may have swallowed it.
void SchedulerCore::SendAgain(int64_t now_ms) {
  if (now_ms - sent_again_ms_ < kSendAgainMs) return;
  sent_again_ms_ = now_ms;
  for (const Member* server : roster().Seated()) {
    if (!server->ready) out_.Send(*server, plan());
    checkpointer_.SendAgain(*server, &out_);
    if (server->ready) pass().CommitAgain(*server, &out_);
  }
}

// Hands the advisor what was measured.
void SchedulerCore::Advise(int64_t now_ms) {
  if (!InPass() || pass().between_passes() || !advisor_.Due(roster(), now_ms)) return;
  const SlotLoads& loads = cluster_.loads;
  const std::vector<Incarnation> planned = IncarnationsOf(plan());
  const std::vector<bool> leaving = LeavingServers(plan(), roster());
  Advisor::Measures measures;
  for (size_t i = 0; i < planned.size(); ++i) {
    measures.servers.push_back({plan().servers[i].name, loads.Capacity(planned[i]), leaving[i]});
  }
  measures.run.unit_batches = inputs_.config.train.unit_batches;
  measures.run.batches_left = pass().batches_left();
  measures.run.seconds_per_batch = loads.SecondsPerBatch(planned, plan().slot_owner);
  measures.leases = pass().OpenLeases();
  const TrainingStats& work = totals_.work;
  measures.bytes_per_batch =
      inputs_.config.train.batch * (work.BytesSentPerSample() + work.BytesReceivedPerSample());
  const auto seated = roster().Seated();
  measures.servers_pause =
      !Settled() || std::any_of(seated.begin(), seated.end(),
                                [&](const Member* server) { return server->life.Suspect(now_ms); });
  measures.capacities_measured = loads.CapacitiesMeasured(planned);
  advisor_.Decide(roster(), measures, now_ms, &out_);
  balancer_.Keep(cluster_.ForgetTheGone());
}

SchedulerCore::Effects SchedulerCore::RequestStop(int64_t now_ms) {
  if (stage_ == Stage::kFinished) return Drain();
  if (stop_wanted_) {
    Finish(Failed("stopped at once; what was trained since the last checkpoint is lost"),
           "stopped at once", now_ms);
  } else if (!InPass()) {
    Finish(StoppedWithoutServers(), "stopped on request", now_ms);
  } else {
    stop_wanted_ = true;
    checkpointer_.WantAtOnce(now_ms);
    if (!checkpointer_.IsSaved(pass().BatchesToSave())) {
      out_.Notice("stopping: writing a checkpoint");
    }
    MaybeCheckpoint(now_ms);
  }
  return Drain();
}

SchedulerCore::Effects SchedulerCore::OnLedgerFailure(const Status& status, int64_t now_ms) {
  if (stage_ == Stage::kFinished) stage_ = Stage::kGathering;  // no member has heard of the end
  Finish(status.error(), "the ledger could not be written", now_ms);
  out_.DropEntries();
  return Drain();
}

SchedulerCore::Phase SchedulerCore::phase() const {
  switch (stage_) {
    case Stage::kGathering:
      return Phase::kGathering;
    case Stage::kLoading:
      return Phase::kLoading;
    case Stage::kInPass:
      return pass().evaluating() ? Phase::kEvaluating : Phase::kTraining;
    case Stage::kFinished:
      return Phase::kFinished;
  }
  return Phase::kFinished;
}

}  // namespace dslide
