#include "worker/worker_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/overloaded.h"
#include "common/config/limits.h"
#include "common/config/schedule.h"
#include "common/log/events.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "worker/events.h"

namespace dslide {
namespace {

constexpr int64_t kSenselessGrantMs = 2000;  // until the next request, so as not to take them all
constexpr char kLostWithPush[] = "its first request went with the push of a batch that failed";

DenseCopies::Use UseOf(const LeasedBatch& leased, uint64_t step) {
  return {leased.lease.kind, step, leased.lease.epoch, leased.lease.lease};
}

}  // namespace

WorkerCore::WorkerCore(Incarnation incarnation, std::string name, uint32_t cores,
                       const TrainingFile* file)
    : link_(incarnation), name_(std::move(name)), cores_(cores), local_(file) {}

WorkerCore::Effects WorkerCore::Drain() {
  CheckInvariants();
  return std::exchange(effects_, Effects());
}

void WorkerCore::CheckInvariants() const {
  if (effects_.exit) return;  // nothing is decided any more
  DSLIDE_CHECK(!work_ || config_);
  DSLIDE_CHECK(!work_ || links_.size() == plan_.servers.size());
  DSLIDE_CHECK(!work_ || !plan_.servers.empty());
  DSLIDE_CHECK(!work_ || GenerationOf(plan_) <= plan_.version);
  DSLIDE_CHECK(InFlightLimit() > 0 && InFlightLimit() <= kMostBatchesInFlight);
  if (!work_) return;
  work_->flights.CheckFlights();
  DSLIDE_CHECK(!work_->told_idle || work_->paused_until_us > 0);
  for (const auto& [sequence, report] : work_->reports) {
    DSLIDE_CHECK(!work_->flights.awaited().contains(sequence));
  }
}

uint64_t WorkerCore::Send(uint32_t to, Body body, WirePrecision precision) {
  Envelope envelope = link_.Next(plan_.version);
  envelope.reply_precision = precision;
  effects_.send.push_back({to, {envelope, std::move(body)}, precision});
  return envelope.sequence;
}

void WorkerCore::SendJoin() {
  Join join;
  join.role = Role::kWorker;
  join.name = name_;
  join.cores = cores_;
  Send(kScheduler, std::move(join));
  link_.JoinSent(NowMs());
}

WorkerCore::Effects WorkerCore::Start(int64_t now_us) {
  now_us_ = now_us;
  SendJoin();
  return Drain();
}

WorkerCore::Effects WorkerCore::Handle(uint32_t from, Message message, size_t bytes,
                                       int64_t now_us) {
  now_us_ = now_us;
  const Envelope envelope = message.envelope;
  if (link_.AnswersEarlierLife(envelope)) return Drain();
  if (from != kScheduler) {
    if (const auto* plan = std::get_if<Plan>(&message.body)) {
      if (work_ && plan->version > plan_.version) link_.AskSoon();
    } else {
      OnServerReply(from, std::move(message), bytes);
    }
    return Drain();
  }
  link_.Heard(NowMs());
  OnSchedulerMessage(std::move(message));
  return Drain();
}

void WorkerCore::OnSchedulerMessage(Message message) {
  const Envelope& envelope = message.envelope;
  std::visit(Overloaded{
                 [&](const JoinReply& reply) { OnJoinReply(message, reply); },
                 [&](const Plan& plan) {
                   EndPause();  // also by the plan that it has
                   OnPlan(plan);
                 },
                 [&](LeaseGrant& grant) {
                   if (IsInGeneration(plan_, envelope.plan_version)) OnGrant(std::move(grant));
                 },
                 [&](const HeartbeatReply& beat) { OnHeartbeatReply(beat); },
                 [&](const Ack&) {
                   if (work_) work_->reports.erase(envelope.reply_to);
                 },
                 [&](const LeaseWait& wait) {
                   if (work_) work_->leases.Answered(NowMs() + wait.retry_ms);
                 },
                 [&](const Shutdown& shutdown) { OnShutdown(shutdown); },
                 [&](const ErrorReply& error) { OnError(error); },
                 [](const auto&) {},
             },
             message.body);
}

void WorkerCore::OnShutdown(const Shutdown& shutdown) {
  effects_.dismissed = shutdown.exit_code;
  effects_.exit = DismissedBy(shutdown);
  if (!effects_.exit->ok()) return;
  effects_.notices.push_back(
      {event::kDismissed, fmt::format("dismissed by the scheduler: {}", shutdown.reason)});
}

// Others tell what this life says from what the last one said by the incarnation.
void WorkerCore::BeginNewLife() {
  work_.reset();
  link_.BeginNewLife();
  link_.JoinSoon(NowMs());
  config_.reset();
  plan_ = Plan();
}

void WorkerCore::OnJoinReply(const Message& message, const JoinReply& reply) {
  Result<Config> config = ParseSchedulersConfig(reply.config);
  if (!config.ok()) {
    effects_.exit = config.error();
    return;
  }
  if (config_ != nullptr && message.envelope.run == link_.run()) return;
  work_.reset();
  link_.Joined(message.envelope.run);
  if (const Status fits = local_.Join(*config, reply); !fits.ok()) {
    Send(kScheduler, Leave{});  // here, because it has not joined and so says no goodbye
    effects_.exit = fits;
    return;
  }
  joined_config_ = *config;
  config_ = std::make_unique<Config>(std::move(*config));
  train_samples_ = reply.train_samples;
  given_name_ = reply.name;
  in_flight_ = InFlightControl(config_->train.batches_in_flight);
  effects_.notices.push_back(
      {event::kJoined,
       fmt::format("joined as {}{}", reply.name, local_.in_use() ? ", with the training data" : ""),
       {{"name", reply.name}}});
}

void WorkerCore::OnPlan(const Plan& plan) {
  if (config_ == nullptr || plan.servers.empty()) return;
  if (plan.slot_owner.size() != config_->cluster.slots) return;
  if (GenerationOf(plan) > plan.version) return;
  for (const uint16_t owner : plan.slot_owner) {
    if (owner >= plan.servers.size()) return;
  }
  if (work_ && plan.version <= plan_.version) return;
  Result<Config> config = ConfigUnder(plan, joined_config_);
  if (!config.ok()) return;
  const bool goes_on = work_ && GenerationOf(plan) == GenerationOf(plan_);
  if (work_ && !goes_on) {
    effects_.notices.push_back(
        {event::kWorkDropped,
         fmt::format("slot plan {}: the work in hand is given up", plan.version),
         {{"map", plan.version}}});
  }
  if (goes_on) {
    BeginAgain();
  } else {
    work_ = Work{};
  }
  *config_ = *std::move(config);
  links_.Follow(plan, goes_on, *config_, now_us_);
  plan_ = plan;
  effects_.connect = plan;
  Fill();
}

// The batches in flight go back to those that are leased: their requests were for another plan.
void WorkerCore::BeginAgain() {
  work_->dense.Clear();
  for (LeasedBatch& batch : work_->flights.Clear()) work_->leases.Add(std::move(batch));
  work_->leases.ReturnAll();
  EndPause();
}

void WorkerCore::EndPause() {
  if (!work_) return;
  work_->paused_until_us = 0;
  work_->told_idle = false;
}

// Whoever is held for longer than a lease lasts has lost its leases, and others train the batches.
void WorkerCore::Hold(bool held, uint32_t in_flight_cap) {
  if (held && !held_) held_since_us_ = now_us_;
  if (!held && held_ && work_ && work_->flights.empty()) {
    const int64_t held_ms = (now_us_ - held_since_us_) / 1000;
    if (held_ms > config_->cluster.lease_timeout_ms) work_->leases.Clear();
  }
  held_ = held;
  owners_cap_ = in_flight_cap;
}

uint32_t WorkerCore::InFlightLimit() const {
  uint32_t limit = in_flight_.limit();
  if (in_flight_cap_ > 0) limit = std::min(limit, in_flight_cap_);
  if (owners_cap_ > 0) limit = std::min(limit, owners_cap_);
  return limit;
}

// A pause: the plan is about to change, and batches in flight would begin again with it. They end
// first. The scheduler is told as soon as none is left (Tick).
void WorkerCore::OnHeartbeatReply(const HeartbeatReply& reply) {
  in_flight_cap_ = reply.in_flight_cap;
  if (!work_) return;
  if (!Paused() || reply.pause_ms == 0) work_->told_idle = false;
  work_->paused_until_us = reply.pause_ms == 0 ? 0 : now_us_ + int64_t{1000} * reply.pause_ms;
}

void WorkerCore::OnGrant(LeaseGrant grant) {
  if (!work_) return;
  work_->leases.Answered(0);
  if (const Status usable = local_.Complete(*config_, &grant); !usable.ok()) {
    effects_.notices.push_back(
        {event::kLeaseUnusable, "a lease is not taken: " + usable.error().message});
    return work_->leases.Answered(NowMs() + kSenselessGrantMs);
  }
  std::vector<LeaseBatch> batches = std::move(grant.batches);
  grant.batches.clear();
  for (LeaseBatch& batch : batches) {
    const BatchId id{grant.epoch, grant.unit, batch.index};
    work_->leases.Add({BatchNumber(id, config_->train, train_samples_), grant, std::move(batch)});
  }
  Fill();
}

// The next unit is asked for while the last batches of this one are on their way. Batches that are
// set aside count: where a server refuses everything a worker must not lease all of the pass. One
// whose batches all wait for an earlier step asks as well: somebody may have left a unit of that
// step.
bool WorkerCore::WantsLease() const {
  if (work_->leases.size() + work_->leases.aside() <= InFlightLimit()) return true;
  const FlightTable& flights = work_->flights;
  return IsSynchronous(config_->train) && !flights.empty() &&
         flights.Unanswered().size() == flights.size();
}

void WorkerCore::RequestLease() {
  if (!work_ || stopping_ || held_ || !work_->leases.MayAsk(NowMs()) || !WantsLease()) return;
  Send(kScheduler, LeaseRequest{local_.in_use()});
  work_->leases.Asked(NowMs());
}

// While the learning rate of asynchronous training rises, gradients change much from batch to
// batch, and stale ones cost accuracy: a worker has one batch in flight.
bool WorkerCore::IsOfWarmup(const LeasedBatch& leased) const {
  const TrainConfig& train = config_->train;
  return leased.lease.kind == LeaseKind::kTrain && !IsSynchronous(train) &&
         train.batches_in_flight == 0 && WarmsUp(*config_, leased.number, train_samples_);
}

// In synchronous training batches of later steps may wait at the servers for this one's, so they do
// not count.
bool WorkerCore::HasRoomFor(const LeasedBatch& next, uint64_t step) const {
  const uint64_t counted =
      IsSynchronous(config_->train) ? step : std::numeric_limits<uint64_t>::max();
  return work_->flights.CountUnpushed(counted) < (IsOfWarmup(next) ? 1 : InFlightLimit());
}

// Takes the next leased batch into flight, if there is room for it; nothing is sent yet. `with`:
// only a batch whose first request may go with the push of that flight. A batch of a later step
// must not: it would wait for the step that the push belongs to.
std::optional<uint64_t> WorkerCore::StartNext(std::optional<uint64_t> with) {
  if (!work_ || stopping_ || held_ || Paused() || work_->leases.empty()) return std::nullopt;
  const LeasedBatch& next = work_->leases.front();
  const uint64_t step = StepOf(next.id(), config_->train, train_samples_);
  if (!HasRoomFor(next, step)) return std::nullopt;
  if (with) {
    const bool waits = IsSynchronous(config_->train) && step > work_->flights.At(*with).step;
    if (next.lease.kind != LeaseKind::kTrain || waits) return std::nullopt;
  }
  LeasedBatch leased = work_->leases.Pop();
  if (leased.begun_us == 0) leased.begun_us = now_us_;
  BatchFlight batch(*config_, plan_, leased.lease, leased.batch, leased.number, links_.Unheard(),
                    DenseFor(leased, step));
  return work_->flights.Begin({std::move(batch), std::move(leased), step, now_us_});
}

std::shared_ptr<const DenseWeights> WorkerCore::DenseFor(const LeasedBatch& leased, uint64_t step) {
  if (config_->model.dense.empty()) return nullptr;
  const std::vector<uint64_t> unanswered = work_->flights.Unanswered();
  const bool asking = std::ranges::any_of(
      unanswered, [&](uint64_t id) { return work_->flights.At(id).batch.wants_dense(); });
  return work_->dense.For(UseOf(leased, step), config_->train, asking, now_us_);
}

// Starts leased batches up to the number that may be in flight.
void WorkerCore::Fill() {
  while (const auto flight = StartNext(std::nullopt)) SendStage(*flight);
  RequestLease();
}

// What workers predict is compared, so an evaluation is rounded by the configuration alone, not by
// what the link is like.
WirePrecision WorkerCore::PrecisionOf(uint64_t flight, uint32_t server) const {
  return work_->flights.At(flight).leased.lease.kind == LeaseKind::kEvaluate
             ? FixedPrecision(config_->cluster.wire)
             : links_.precision(server);
}

void WorkerCore::SendStage(uint64_t flight, std::optional<uint64_t> next) {
  FlightTable& flights = work_->flights;
  flights.At(flight).first_reply_us = 0;
  for (uint32_t server = 0; server < plan_.servers.size(); ++server) {
    if (!flights.At(flight).batch.Asks(server)) continue;
    const AwaitedReply request{flight, next, server, now_us_, PrecisionOf(flight, server)};
    flights.Await(Send(server, flights.RequestOf(request), request.precision), request);
  }
}

void WorkerCore::OnServerReply(uint32_t server, Message message, size_t bytes) {
  if (!work_) return;
  FlightTable& flights = work_->flights;
  const auto request = flights.Take(message.envelope.reply_to, server);
  if (!request) return;  // late or repeated
  links_.Heard(server, now_us_);
  const auto* error = std::get_if<ErrorReply>(&message.body);
  if (error != nullptr && (!request->probe || error->code == ErrorCode::kFenced)) {
    return OnServerError(*request, *error);
  }
  Flight& flight = flights.At(request->flight);
  const int64_t service_us = message.envelope.service_us;
  if (request->repeats == 0) {
    const auto stage = static_cast<size_t>(flight.batch.stage());
    links_.Measure(*request, request->probe ? ServerLinks::kProbe : stage, request->bytes + bytes,
                   service_us, *config_, now_us_);
  }
  if (request->probe) {
    if (flight.first_reply_us == 0) flight.first_reply_us = now_us_;
    return;
  }
  flights.At(request->next.value_or(request->flight))
      .batch.CountReceived(message.body.index(), bytes);
  if (flight.pushed) return Pushed(*request, std::move(message));
  TakeReply(request->flight, server, std::move(message));
}

// The reply to a push. The next batch's EmbedReply acknowledges the push; a mere Ack refuses that
// batch. The proof is of the batch that was pushed.
void WorkerCore::Pushed(const AwaitedReply& request, Message reply) {
  const bool embedded = std::holds_alternative<EmbedReply>(reply.body);
  if (!embedded && !std::holds_alternative<Ack>(reply.body)) {
    TakeReply(request.flight, request.server, std::move(reply));
    const bool failed = !work_->flights.Has(request.flight);
    if (request.next && failed) FailFlight(*request.next, kLostWithPush);
    return;
  }
  TakeReply(request.flight, request.server, {reply.envelope, Ack{}});
  if (!request.next) return;
  if (!embedded) {
    return FailFlight(*request.next, plan_.servers[request.server].name + " takes no more batches");
  }
  BatchProof().PutInto(&reply.envelope);
  TakeReply(*request.next, request.server, std::move(reply));
}

void WorkerCore::OnServerError(const AwaitedReply& request, const ErrorReply& error) {
  const std::string why = fmt::format("{}: {}", plan_.servers[request.server].name, error.text);
  if (error.code == ErrorCode::kFenced) link_.AskSoon();
  if (error.code == ErrorCode::kRefused) links_.Judge(request.server, false, now_us_);
  // A server that is not where this plan is will be there soon. One that does not know the batch
  // any more has it from another worker, a second copy: begun again, the two would drive each other
  // out. The next batch has only lost its first request with that one's push.
  const bool copied = error.code == ErrorCode::kUnknownBatch;
  if (error.code == ErrorCode::kStalePlan) {
    for (const auto id : {std::optional(request.flight), request.next}) {
      if (id) work_->flights.At(*id).leased.failures = 0;
    }
  }
  FailFlight(request.flight, why, copied ? After::kGiveUp : After::kBeginAgain);
  if (request.next) FailFlight(*request.next, copied ? kLostWithPush : why);
}

// Takes a reply into its flight, which fails if the reply does not fit.
void WorkerCore::TakeReply(uint64_t id, uint32_t server, Message reply) {
  if (!work_->flights.Has(id)) return;  // it has failed
  Flight& flight = work_->flights.At(id);
  const Result<bool> complete =
      flight.batch.Take(server, std::move(reply.body), BatchProof::In(reply.envelope));
  links_.Judge(server, complete.ok() || flight.batch.diverged(), now_us_);
  if (flight.batch.diverged()) return EndAsDiverged(complete.error().message);
  if (!complete.ok()) return FailFlight(id, complete.error().message);
  if (flight.first_reply_us == 0) flight.first_reply_us = now_us_;
  if (!*complete) return;
  flight.service_us += reply.envelope.service_us;  // of the reply that the stage waited for
  if (!flight.answered && flight.batch.wants_dense()) {
    work_->dense.Keep(UseOf(flight.leased, flight.step), flight.batch.dense(), now_us_);
  }
  flight.answered = true;
  Proceed(id);
}

// Other batches would come to the same. The scheduler shows it and does not end the run: a worker's
// word alone must not.
void WorkerCore::EndAsDiverged(const std::string& why) {
  const ErrorReply diverged{ErrorCode::kRefused,
                            fmt::format("training diverged: {}; lower train.learning_rate and go "
                                        "on from an earlier checkpoint",
                                        why)};
  Send(kScheduler, diverged);
  effects_.exit = Failed(diverged.text);
}

// Goes on with a flight whose stage is complete.
void WorkerCore::Proceed(uint64_t id) {
  Flight& flight = work_->flights.At(id);
  if (flight.batch.done()) {
    longest_batch_us_ = std::max(longest_batch_us_, now_us_ - flight.leased.begun_us);
    SendReport(flight.batch.report());
    work_->flights.End(id);
    return Fill();
  }
  if (flight.batch.stage() != BatchFlight::Stage::kEmbedPush) return SendStage(id);
  flight.pushed = true;
  if (IsOfWarmup(flight.leased)) {
    in_flight_.Interrupt();
  } else {
    in_flight_.Note(now_us_, now_us_ - flight.started_us, flight.service_us);
  }
  SendStage(id, StartNext(id));
  Fill();
}

// The report is kept until the scheduler has it: the servers have applied the batch, so nobody
// needs to train it again.
void WorkerCore::SendReport(BatchDone done) {
  const uint64_t sequence = Send(kScheduler, done);
  work_->reports.emplace(sequence, Report{std::move(done), plan_.version, NowMs()});
}

// Ends a flight, and the one whose first request went with its push. Their batches begin again a
// little later. A batch that is given up, or has failed too often, waits until its lease expires;
// another worker may get it then. The one that has lost its request is not given up.
void WorkerCore::FailFlight(uint64_t id, const std::string& why, After after) {
  auto failed = work_->flights.Fail(id);
  if (!failed) return;
  const bool again =
      after == After::kBeginAgain && work_->leases.SetAside(std::move(failed->leased), now_us_);
  effects_.failed_batches.push_back(
      {event::kBatchFailed,
       (again ? "a batch begins again: " : "a batch is given up: ") + why,
       {{"again", again}, {"why", why}}});
  if (failed->next) FailFlight(*failed->next, kLostWithPush);
}

// Batches that wait for their step may wait for ever once workers leave; nothing is lost with them.
void WorkerCore::GiveWaitingBack() {
  if (!work_ || !IsSynchronous(config_->train)) return;
  for (const uint64_t id : work_->flights.Unanswered()) {
    FailFlight(id, "this worker stops", After::kGiveUp);
  }
}

void WorkerCore::OnError(const ErrorReply& error) {
  effects_.notices.push_back({event::kSchedulerRefused, "the scheduler refused: " + error.text});
  if (error.code == ErrorCode::kWrongRun || error.code == ErrorCode::kFenced) {
    BeginNewLife();  // it was taken for dead, or a new life of the scheduler does not know it
  } else if (error.code == ErrorCode::kIncompatible) {
    effects_.exit = BadInput(error.text);
  } else if (config_ == nullptr) {
    effects_.exit = TryLater(error.text);
  }
}

WorkerCore::Effects WorkerCore::Tick(const Heartbeat& usage, int64_t now_us) {
  now_us_ = now_us;
  const int64_t patience_ms = SchedulerLink::PatienceMs(config_.get());
  if (NowMs() - link_.heard_ms() > patience_ms) {
    effects_.exit =
        TryLater(fmt::format("nothing heard from the scheduler for {} s", patience_ms / 1000));
    return Drain();
  }
  if (stopping_) GiveWaitingBack();
  if (stopping_ && (!work_ || (work_->flights.empty() && work_->reports.empty()))) {
    effects_.exit = Status();
    return Drain();
  }
  if (stopping_ && NowMs() - stop_asked_us_ / 1000 >= kStopMs) {
    effects_.notices.push_back(
        {event::kBatchesUnfinished,
         fmt::format("the batches in flight are not done after {} s; others train them",
                     kStopMs / 1000)});
    effects_.exit = Status();
    return Drain();
  }
  // Until it has a plan it asks again: an answer, or the plan, may have been lost.
  if (!work_ && link_.JoinDue(NowMs())) SendJoin();
  if (config_ == nullptr) return Drain();
  const bool idle = work_ && Paused() && work_->flights.empty();
  if ((idle && !work_->told_idle) || link_.HeartbeatDue(NowMs(), config_->cluster.heartbeat_ms)) {
    if (work_) work_->told_idle = idle;
    SendHeartbeat(usage);
  }
  if (work_) {
    SendAgain();
    ProbeServers();
    work_->leases.ReturnDue(now_us_);
    work_->leases.ForgetLostRequest(NowMs(), config_->cluster.request_timeout_ms);
  }
  Fill();
  if (work_) work_->flights.CheckInvariants(plan_.servers.size());
  return Drain();
}

void WorkerCore::SendHeartbeat(const Heartbeat& usage) {
  Heartbeat beat = usage;
  beat.in_flight_limit = InFlightLimit();
  links_.Describe(&beat);
  beat.longest_batch_us = static_cast<uint32_t>(std::exchange(longest_batch_us_, 0));
  if (work_) {
    beat.batches_in_flight = static_cast<uint32_t>(work_->flights.size());
    links_.TellSilent(work_->flights, work_->leases.aside() > 0, *config_, now_us_, &beat,
                      &effects_.notices);
  }
  Send(kScheduler, beat);
  link_.HeartbeatSent(NowMs());
}

void WorkerCore::Probe(uint64_t flight, uint32_t server) {
  FlightTable& flights = work_->flights;
  if (flights.IsProbed(flight, server)) return;
  AwaitedReply probe{flight, std::nullopt, server, now_us_, PrecisionOf(flight, server)};
  probe.probe = true;
  flights.Await(Send(server, flights.RequestOf(probe), probe.precision), probe);
}

// Where stages ask some servers only, all servers are probed all the time. A server that answers
// neither its requests nor probes is silent, and that others answer probes shows that this worker's
// own link is not at fault. Besides, the messages of a server with rows of one layer are of about
// the same size; what they take does not tell the round trip from the bandwidth.
void WorkerCore::ProbeServers() {
  if (work_->flights.empty()) return;
  const uint64_t flight = work_->flights.Youngest();
  if (work_->flights.At(flight).batch.AllHaveBothLayers()) return;
  for (uint32_t server = 0; server < plan_.servers.size(); ++server) {
    if (links_.ProbeDue(server, now_us_)) Probe(flight, server);
  }
}

// Repeats what has no answer, with the same sequence: a server that has done the work answers with
// the reply that it kept.
void WorkerCore::SendAgain() {
  const int64_t timeout_ms = config_->cluster.request_timeout_ms;
  const auto send = [&](uint64_t sequence, const AwaitedReply& request) {
    Envelope envelope = link_.Again(sequence, plan_.version);
    envelope.reply_precision = request.precision;
    effects_.send.push_back(
        {request.server, {envelope, work_->flights.RequestOf(request)}, request.precision});
  };
  work_->flights.SendAgain(now_us_, 1000 * timeout_ms, send);
  for (auto& [sequence, report] : work_->reports) {
    if (NowMs() - report.sent_ms < timeout_ms) continue;
    report.sent_ms = NowMs();
    effects_.send.push_back(
        {kScheduler, {link_.Again(sequence, report.plan_version), report.done}});
  }
}

WorkerCore::Effects WorkerCore::Goodbye(const Heartbeat& usage) {
  if (config_ == nullptr) return Drain();
  Send(kScheduler, usage);
  Send(kScheduler, Leave{});
  return Drain();
}

void WorkerCore::NoteSent(const Message& message, size_t bytes) {
  if (work_) work_->flights.CountSent(message.envelope.sequence, message.body.index(), bytes);
}

}  // namespace dslide
