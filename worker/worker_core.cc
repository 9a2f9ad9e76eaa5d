#include "worker/worker_core.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/run/slot_plan.h"
#include "common/run/step.h"

namespace dslide {
namespace {

constexpr int64_t kAgainUs = 300'000;        // until a batch that failed begins again
constexpr uint32_t kAgainFactor = 4;         // times longer after each further failure
constexpr uint32_t kMostFailures = 5;        // of one batch: 25 s, less than a lease lasts
constexpr int64_t kSenselessGrantMs = 2000;  // until the next request, so as not to take them all

}  // namespace

WorkerCore::WorkerCore(Incarnation incarnation, std::string name, uint32_t cores,
                       const TrainingFile* file)
    : link_(incarnation), name_(name), asked_name_(std::move(name)), cores_(cores), local_(file) {}

WorkerCore::Effects WorkerCore::Drain() { return std::exchange(effects_, Effects()); }

uint64_t WorkerCore::Send(uint32_t to, Body body, WirePrecision precision) {
  Envelope envelope = link_.Next(plan_.version);
  envelope.reply_precision = precision;
  effects_.send.push_back({to, {envelope, std::move(body)}, precision});
  return envelope.sequence;
}

// Int8 where the bytes of bf16 keep the link busy for half of the time and more. In synchronous
// training all links are alike, or the result would depend on who trained a batch.
void WorkerCore::ChoosePrecision(Link* link) const {
  constexpr double kBusy = 0.5;
  constexpr double kIdle = 0.08;  // of int8; bf16 has twice its bytes, and estimates vary
  if (config_->cluster.wire != Wire::kAuto || IsSynchronous(config_->train)) return;
  if (link->windows == link->meter.windows()) return;
  link->windows = link->meter.windows();
  if (link->meter.busy() > kBusy) link->precision = WirePrecision::kInt8;
  if (link->meter.busy() < kIdle) link->precision = WirePrecision::kBf16;
}

// The slowest of the links, and what was made of them.
void WorkerCore::Describe(Heartbeat* beat) const {
  beat->batches_in_flight = static_cast<uint32_t>(flights_.size());
  beat->in_flight_limit = InFlightLimit();
  for (const Link& link : links_) {
    const auto bits = static_cast<uint64_t>(link.meter.bits_per_second());
    if (bits > 0 && (beat->bits_per_second == 0 || bits < beat->bits_per_second)) {
      beat->bits_per_second = bits;
    }
    beat->round_trip_us =
        std::max(beat->round_trip_us, static_cast<uint32_t>(link.meter.round_trip_us()));
    beat->int8_links += link.precision == WirePrecision::kInt8;
  }
}

// [servers] A server that is only slow answers something. A server whose answers do not fit its
// requests is as good as silent.
std::vector<WorkerCore::Silence> WorkerCore::SilentServers() const {
  const int64_t silence_us = int64_t{2000} * config_->cluster.request_timeout_ms;
  const auto long_ago = [&](int64_t since_us) { return now_us_ - since_us >= silence_us; };
  std::vector<Silence> silent;
  for (const Link& link : links_) {
    const bool useless = link.useless_since_us > 0 && long_ago(link.useless_since_us);
    silent.push_back(useless ? Silence::kOthersAnswer : Silence::kNone);
  }
  for (const auto& [sequence, pending] : pending_) {
    if (!long_ago(links_[pending.server].heard_us)) continue;
    const int64_t others_us = flights_.at(pending.flight).first_reply_us;
    Silence& at = silent[pending.server];
    if (others_us > 0 && long_ago(others_us)) at = Silence::kOthersAnswer;
    if (at == Silence::kNone && pending.repeated) at = Silence::kUnanswered;
  }
  return silent;
}

// The scheduler is told only of servers that others outdo: when no server answers, the worker's own
// network may be at fault. The log names both.
void WorkerCore::TellSilentServers(Heartbeat* beat) {
  const std::vector<Silence> silent = SilentServers();
  for (size_t s = 0; s < silent.size(); ++s) {
    const PlanServer& server = plan_.servers[s];
    const bool others_answer = silent[s] == Silence::kOthersAnswer;
    if (others_answer) beat->silent_servers.push_back(server.incarnation.value);
    if (silent[s] != links_[s].told && silent[s] != Silence::kNone) {
      effects_.notices.push_back(fmt::format("{} at {} does not answer{}", server.name,
                                             server.address,
                                             others_answer ? ", other servers do" : ""));
    }
    links_[s].told = silent[s];
  }
}

WorkerCore::Effects WorkerCore::Start(int64_t now_us) {
  now_us_ = now_us;
  Join join;
  join.role = Role::kWorker;
  join.name = asked_name_;
  join.cores = cores_;
  Send(kScheduler, std::move(join));
  link_.JoinSent(NowMs());
  return Drain();
}

WorkerCore::Effects WorkerCore::Handle(uint32_t from, Message message, size_t bytes,
                                       int64_t now_us) {
  now_us_ = now_us;
  const Envelope envelope = message.envelope;
  if (link_.AnswersEarlierLife(envelope)) return Drain();
  if (from != kScheduler) {
    if (const auto* plan = std::get_if<Plan>(&message.body)) {
      OnPlan(*plan);  // a server that has a newer one
    } else {
      OnServerReply(from, std::move(message), bytes);
    }
    return Drain();
  }
  link_.Heard(NowMs());
  if (const auto* reply = std::get_if<JoinReply>(&message.body)) {
    OnJoinReply(message, *reply);
  } else if (const auto* plan = std::get_if<Plan>(&message.body)) {
    paused_until_us_ = 0;  // also if a server had told it before
    OnPlan(*plan);
  } else if (auto* grant = std::get_if<LeaseGrant>(&message.body)) {
    const bool of_this_generation =
        envelope.plan_version <= plan_.version && envelope.plan_version >= GenerationOf(plan_);
    if (of_this_generation) OnGrant(std::move(*grant));
  } else if (const auto* beat = std::get_if<HeartbeatReply>(&message.body)) {
    in_flight_cap_ = beat->in_flight_cap;
    Pause(beat->pause_ms);
  } else if (std::holds_alternative<Ack>(message.body)) {
    reports_.erase(envelope.reply_to);
  } else if (const auto* wait = std::get_if<LeaseWait>(&message.body)) {
    lease_asked_ms_.reset();
    lease_retry_ms_ = NowMs() + wait->retry_ms;
  } else if (const auto* shutdown = std::get_if<Shutdown>(&message.body)) {
    effects_.notices.push_back(fmt::format("the scheduler ends the run: {}", shutdown->reason));
    effects_.exit = Status();
  } else if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    OnError(*error);
  }
  return Drain();
}

void WorkerCore::ForgetWork() {
  flights_.clear();
  pending_.clear();
  queue_.clear();
  refused_.clear();
  reports_.clear();
  paused_until_us_ = 0;
  planned_ = false;
  lease_asked_ms_.reset();
}

// What others are told of it from now on is not mixed up with what they had of it.
void WorkerCore::BeginNewLife() {
  ForgetWork();
  link_.BeginNewLife();
  link_.JoinSoon(NowMs());
  config_.reset();
  plan_ = Plan();
}

void WorkerCore::OnJoinReply(const Message& message, const JoinReply& reply) {
  Result<Config> config = ParseConfig(reply.config, "configuration from the scheduler");
  if (!config.ok()) {
    effects_.exit = config.error();
    return;
  }
  if (config_ != nullptr && message.envelope.run == link_.run()) return;
  ForgetWork();
  link_.Joined(message.envelope.run);
  if (const Status fits = local_.Join(*config, reply); !fits.ok()) {
    Send(kScheduler, Leave{});  // here, because it has not joined and so says no goodbye
    effects_.exit = fits;
    return;
  }
  config_ = std::make_unique<Config>(std::move(*config));
  train_samples_ = reply.train_samples;
  in_flight_ = InFlightControl(config_->train.batches_in_flight);
  name_ = reply.name;
  effects_.notices.push_back(
      fmt::format("joined as {}{}", name_, local_.in_use() ? ", with the training data" : ""));
}

void WorkerCore::OnPlan(const Plan& plan) {
  if (config_ == nullptr || plan.servers.empty() || plan.slot_owner.empty()) return;
  for (const uint16_t owner : plan.slot_owner) {
    if (owner >= plan.servers.size()) return;
  }
  if (planned_ && plan.version <= plan_.version) return;
  const bool goes_on = planned_ && GenerationOf(plan) == GenerationOf(plan_);
  if (goes_on) {
    BeginAnew();
  } else {
    if (planned_) {
      effects_.notices.push_back(
          fmt::format("slot plan {}: the work in hand is given up", plan.version));
    }
    ForgetWork();
  }
  std::vector<Link> links;
  for (const PlanServer& server : plan.servers) {
    const auto same = std::find_if(plan_.servers.begin(), plan_.servers.end(), [&](const auto& s) {
      return goes_on && s.incarnation == server.incarnation;
    });
    const Link fresh{{}, FixedPrecision(config_->cluster.wire), 0, now_us_};
    links.push_back(same == plan_.servers.end() ? fresh : links_[same - plan_.servers.begin()]);
  }
  links_ = std::move(links);
  plan_ = plan;
  paused_until_us_ = 0;
  planned_ = true;
  effects_.connect = plan;
  Fill();
}

// The batches in flight go back to those that are leased: their requests were for another plan.
void WorkerCore::BeginAnew() {
  for (auto& [id, flight] : flights_) queue_.emplace(flight.number, std::move(flight.leased));
  flights_.clear();
  pending_.clear();
  for (auto& [until, refused] : refused_) queue_.insert(std::move(refused));  // for that plan
  refused_.clear();
}

uint32_t WorkerCore::InFlightLimit() const {
  return in_flight_cap_ == 0 ? in_flight_.limit() : std::min(in_flight_.limit(), in_flight_cap_);
}

// The plan is about to change: what is in flight shall end before, for it would begin anew. The
// scheduler is told as soon as nothing is (Tick).
void WorkerCore::Pause(uint32_t pause_ms) {
  if (!Paused()) told_idle_ = false;
  paused_until_us_ = pause_ms == 0 ? 0 : now_us_ + int64_t{1000} * pause_ms;
}

void WorkerCore::OnGrant(LeaseGrant grant) {
  lease_asked_ms_.reset();
  lease_retry_ms_ = 0;
  if (!planned_) return;
  if (const Status usable = local_.Complete(*config_, &grant); !usable.ok()) {
    effects_.notices.push_back("a lease is not taken: " + usable.error().message);
    lease_retry_ms_ = NowMs() + kSenselessGrantMs;
    return;
  }
  std::vector<LeaseBatch> batches = std::move(grant.batches);
  grant.batches.clear();
  for (LeaseBatch& batch : batches) {
    const BatchId id{grant.epoch, grant.unit, batch.index};
    queue_.emplace(BatchNumber(id, config_->train, train_samples_),
                   Queued{grant, std::move(batch)});
  }
  Fill();
}

// The next unit is asked for while the last batches of this one are on their way. A worker whose
// batches all wait for an earlier step asks as well: somebody may have left a unit of that step.
bool WorkerCore::WantsLease() const {
  if (queue_.size() <= InFlightLimit()) return true;
  const auto waits = [](const auto& entry) { return !entry.second.answered; };
  return IsSynchronous(config_->train) && !flights_.empty() &&
         std::all_of(flights_.begin(), flights_.end(), waits);
}

void WorkerCore::RequestLease() {
  if (!planned_ || stopping_ || lease_asked_ms_ || NowMs() < lease_retry_ms_) return;
  if (!WantsLease()) return;
  Send(kScheduler, LeaseRequest{local_.in_use()});
  lease_asked_ms_ = NowMs();
}

// Batches of later steps may wait at the servers for this one's, so they do not count.
bool WorkerCore::HasRoomFor(uint64_t step) const {
  const auto counts = [&](const auto& entry) {
    const Flight& flight = entry.second;
    return !flight.pushed && (!IsSynchronous(config_->train) || flight.step <= step);
  };
  return std::count_if(flights_.begin(), flights_.end(), counts) < InFlightLimit();
}

// Takes the next leased batch into flight, if there is room for it; nothing is sent yet. `with`:
// only one whose first request may go with the last one of that flight. A batch of a later step
// must not: it would wait for the step that the push belongs to.
std::optional<uint64_t> WorkerCore::StartNext(std::optional<uint64_t> with) {
  if (!planned_ || stopping_ || Paused() || queue_.empty()) return std::nullopt;
  const auto next = queue_.begin();
  const LeaseGrant& lease = next->second.lease;
  const BatchId id{lease.epoch, lease.unit, next->second.batch.index};
  const uint64_t step = StepOf(id, config_->train, train_samples_);
  if (!HasRoomFor(step)) return std::nullopt;
  if (with) {
    const bool waits = IsSynchronous(config_->train) && step > flights_.at(*with).step;
    if (lease.kind != LeaseKind::kTrain || waits) return std::nullopt;
  }
  Queued queued = std::move(next->second);
  const uint64_t number = next->first;
  queue_.erase(next);
  const uint64_t flight = next_flight_++;
  if (queued.begun_us == 0) queued.begun_us = now_us_;
  BatchFlight batch(*config_, plan_, queued.lease, queued.batch, number);
  flights_.try_emplace(flight, Flight{std::move(batch), std::move(queued), number, step, now_us_});
  return flight;
}

// Starts leased batches up to the number that may be in flight.
void WorkerCore::Fill() {
  while (const auto flight = StartNext(std::nullopt)) SendStage(*flight);
  RequestLease();
}

void WorkerCore::SendStage(uint64_t flight, std::optional<uint64_t> next) {
  flights_.at(flight).first_reply_us = 0;
  for (uint32_t server = 0; server < plan_.servers.size(); ++server) {
    const Pending pending{flight, next, server, now_us_, links_[server].precision};
    pending_[Send(server, RequestOf(pending), pending.precision)] = pending;
  }
}

Body WorkerCore::RequestOf(const Pending& pending) const {
  Body request = flights_.at(pending.flight).batch.RequestFor(pending.server);
  if (pending.next) {
    std::get<EmbedPush>(request).next =
        std::get<EmbedRequest>(flights_.at(*pending.next).batch.RequestFor(pending.server));
  }
  return request;
}

void WorkerCore::OnServerReply(uint32_t server, Message message, size_t bytes) {
  const auto found = pending_.find(message.envelope.reply_to);
  if (found == pending_.end() || found->second.server != server) return;  // late or repeated
  const Pending pending = found->second;
  pending_.erase(found);
  links_[server].heard_us = now_us_;
  if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    return OnServerError(pending, server, *error);
  }
  const int64_t service_us = message.envelope.service_us;
  if (!pending.repeated) {
    const auto kind = static_cast<size_t>(flights_.at(pending.flight).batch.stage());
    Link& link = links_[server];
    link.meter.Note(now_us_, kind, now_us_ - pending.sent_us, service_us, pending.bytes + bytes);
    ChoosePrecision(&link);
  }
  flights_.at(pending.next.value_or(pending.flight))
      .batch.CountReceived(message.body.index(), bytes);
  const bool pushed = flights_.at(pending.flight).pushed;
  const bool embedded = std::holds_alternative<EmbedReply>(message.body);
  if (!pushed || !(embedded || std::holds_alternative<Ack>(message.body))) {
    TakeReply(pending.flight, server, std::move(message.body), service_us);
    const bool failed = !flights_.contains(pending.flight);
    if (pending.next && failed) FailFlight(*pending.next, "it went with that one");
    return;
  }
  // The next batch's EmbedReply acknowledges the push; a mere Ack refuses that batch.
  TakeReply(pending.flight, server, Ack{}, service_us);
  if (!pending.next) return;
  if (embedded) {
    TakeReply(*pending.next, server, std::move(message.body), service_us);
  } else {
    FailFlight(*pending.next, plan_.servers[server].name + " takes no more batches");
  }
}

void WorkerCore::OnServerError(const Pending& pending, uint32_t server, const ErrorReply& error) {
  const std::string why = fmt::format("{}: {}", plan_.servers[server].name, error.text);
  if (error.code == ErrorCode::kFenced) {
    effects_.notices.push_back(why);
    return BeginNewLife();
  }
  // A server that is not where this plan is will be there soon. One that does not know the batch
  // any more has it from another worker, a second copy: begun again, the two would drive each other
  // out.
  const bool copied = error.code == ErrorCode::kUnknownBatch;
  for (const auto id : {std::optional(pending.flight), pending.next}) {
    if (!id || !flights_.contains(*id)) continue;
    if (error.code == ErrorCode::kStalePlan) flights_.at(*id).leased.failures = 0;
    FailFlight(*id, why, copied ? After::kGiveUp : After::kBeginAgain);
  }
}

// Takes a reply into its flight, which fails if the reply does not fit.
void WorkerCore::TakeReply(uint64_t id, uint32_t server, Body reply, int64_t service_us) {
  const auto found = flights_.find(id);
  if (found == flights_.end()) return;  // given up
  Flight& flight = found->second;
  const Result<bool> advanced = flight.batch.Take(server, std::move(reply));
  int64_t& useless_since_us = links_[server].useless_since_us;
  if (!advanced.ok()) {
    if (useless_since_us == 0) useless_since_us = now_us_;
    return FailFlight(id, advanced.error().message);
  }
  useless_since_us = 0;
  if (flight.first_reply_us == 0) flight.first_reply_us = now_us_;
  if (!*advanced) return;
  flight.service_us += service_us;  // of the reply that the stage waited for
  flight.answered = true;
  Proceed(id);
}

// Goes on with a flight whose stage is complete.
void WorkerCore::Proceed(uint64_t id) {
  Flight& flight = flights_.at(id);
  if (flight.batch.done()) {
    longest_batch_us_ = std::max(longest_batch_us_, now_us_ - flight.leased.begun_us);
    SendReport(flight.batch.report());
    flights_.erase(id);
    return Fill();
  }
  if (flight.batch.stage() != BatchFlight::Stage::kEmbedPush) return SendStage(id);
  flight.pushed = true;
  in_flight_.Note(now_us_, now_us_ - flight.started_us, flight.service_us);
  SendStage(id, StartNext(id));
  Fill();
}

// Until the scheduler has it: the servers have applied the batch, so nobody needs to train it
// again.
void WorkerCore::SendReport(BatchDone done) {
  const uint64_t sequence = Send(kScheduler, done);
  reports_.emplace(sequence, Report{std::move(done), NowMs()});
}

// Ends a flight, and the one whose first request went with its push. Their batches begin again a
// little later. A batch that is given up, or has failed kMostFailures times, waits until its lease
// expires; another worker may get it then.
void WorkerCore::FailFlight(uint64_t id, const std::string& why, After after) {
  const auto failed = flights_.extract(id);
  if (failed.empty()) return;
  Flight& flight = failed.mapped();
  if (after == After::kBeginAgain && ++flight.leased.failures < kMostFailures) {
    effects_.notices.push_back("a batch begins again: " + why);
    int64_t wait_us = kAgainUs;
    for (uint32_t i = 1; i < flight.leased.failures; ++i) wait_us *= kAgainFactor;
    refused_.emplace(now_us_ + wait_us, std::pair(flight.number, std::move(flight.leased)));
  } else {
    effects_.notices.push_back("a batch is given up: " + why);
  }
  std::optional<uint64_t> next;
  for (auto& [sequence, pending] : pending_) {
    if (pending.next == id) pending.next.reset();  // the push itself stands
    if (pending.flight == id) next = pending.next;
  }
  std::erase_if(pending_, [&](const auto& entry) { return entry.second.flight == id; });
  if (next) FailFlight(*next, "it went with that one", after);
}

// Batches that wait for their step may wait for ever once workers leave; nothing is lost with them.
void WorkerCore::GiveWaitingBack() {
  if (config_ == nullptr || !IsSynchronous(config_->train)) return;
  std::vector<uint64_t> waiting;
  for (const auto& [id, flight] : flights_) {
    if (!flight.answered) waiting.push_back(id);
  }
  for (const uint64_t id : waiting) FailFlight(id, "this worker stops", After::kGiveUp);
}

void WorkerCore::OnError(const ErrorReply& error) {
  effects_.notices.push_back("the scheduler refused: " + error.text);
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
  if (stopping_ && flights_.empty() && reports_.empty()) {
    effects_.exit = Status();
    return Drain();
  }
  // Until it has a plan it asks again: an answer, or the plan, may have been lost.
  if (!planned_ && link_.JoinDue(NowMs())) {
    Effects join = Start(now_us);
    effects_ = std::move(join);
  }
  if (config_ == nullptr) return Drain();
  const ClusterConfig& cluster = config_->cluster;
  const bool idle = Paused() && flights_.empty();
  if ((idle && !told_idle_) || link_.HeartbeatDue(NowMs(), cluster.heartbeat_ms)) {
    told_idle_ = idle;
    Heartbeat beat = usage;
    Describe(&beat);
    TellSilentServers(&beat);
    beat.longest_batch_us = static_cast<uint32_t>(std::exchange(longest_batch_us_, 0));
    Send(kScheduler, beat);
    link_.HeartbeatSent(NowMs());
  }
  SendAgain();
  while (!refused_.empty() && refused_.begin()->first <= now_us_) {
    queue_.insert(std::move(refused_.extract(refused_.begin()).mapped()));
  }
  if (lease_asked_ms_ && NowMs() - *lease_asked_ms_ >= cluster.request_timeout_ms) {
    lease_asked_ms_.reset();
  }
  Fill();
  return Drain();
}

// What has no answer, with the same sequence: who did the work already answers from what it stored.
void WorkerCore::SendAgain() {
  const int64_t timeout_ms = config_->cluster.request_timeout_ms;
  for (auto& [sequence, pending] : pending_) {
    if (now_us_ - pending.sent_us < 1000 * timeout_ms) continue;
    pending.sent_us = now_us_;
    pending.repeated = true;
    Envelope envelope = link_.Again(sequence, plan_.version);
    envelope.reply_precision = pending.precision;
    effects_.send.push_back({pending.server, {envelope, RequestOf(pending)}, pending.precision});
  }
  for (auto& [sequence, report] : reports_) {
    if (NowMs() - report.sent_ms < timeout_ms) continue;
    report.sent_ms = NowMs();
    effects_.send.push_back({kScheduler, {link_.Again(sequence, plan_.version), report.done}});
  }
}

WorkerCore::Effects WorkerCore::Goodbye(const Heartbeat& usage) {
  if (config_ == nullptr) return Drain();
  Send(kScheduler, usage);
  Send(kScheduler, Leave{});
  return Drain();
}

void WorkerCore::NoteSent(const Message& message, size_t bytes) {
  const auto found = pending_.find(message.envelope.sequence);
  if (found == pending_.end()) return;
  found->second.bytes = bytes;
  flights_.at(found->second.flight).batch.CountSent(message.body.index(), bytes);
}

}  // namespace dslide
