#include "server/core/server_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "server/executor/gather.h"

namespace dslide {

ServerCore::ServerCore(Identity identity)
    : identity_(std::move(identity)), out_(identity_.incarnation), load_(identity_.cpu_quota) {}

ServerCore::Effects ServerCore::Drain() {
  CheckInvariants();
  return out_.Drain();
}

// Plans of one generation carry the same state on, so what was said under an earlier one holds.
bool ServerCore::IsOfThisGeneration(const Envelope& envelope) const {
  if (!generation_) return false;
  const Plan& plan = generation_->seat.plan;
  const Plan& newest = generation_->next_plan ? *generation_->next_plan : plan;
  return envelope.plan_version <= newest.version && envelope.plan_version >= GenerationOf(plan);
}

ServerCore::Effects ServerCore::HandleScheduler(Message message, int64_t now_ms) {
  if (out_.link().AnswersEarlierLife(message.envelope)) return Drain();
  out_.link().Heard(now_ms);
  if (generation_) generation_->saver.HearScheduler();
  MeetScheduler(message.envelope.incarnation);
  const bool current = IsOfThisGeneration(message.envelope);
  if (const auto* reply = std::get_if<JoinReply>(&message.body)) {
    OnJoinReply(message, *reply);
  } else if (const auto* plan = std::get_if<Plan>(&message.body)) {
    OnPlan(*plan, now_ms);
  } else if (const auto* move = std::get_if<MoveSlots>(&message.body)) {
    // What cannot be taken now the scheduler sends again, also in the cases below.
    if (!current || !settled() || generation_->next_plan) return Drain();
    generation_->slots.OnMoveSlots(*move, generation_->seat, now_ms, &out_);
  } else if (const auto* checkpoint = std::get_if<CheckpointRequest>(&message.body)) {
    if (!current || !settled() || message.envelope.plan_version != plan_version()) return Drain();
    generation_->saver.OnRequest(*checkpoint, generation_->seat, generation_->requests.committed(),
                                 &out_);
  } else if (const auto* commit = std::get_if<CommitSteps>(&message.body)) {
    if (current && loaded()) generation_->requests.OnCommit(*commit, generation_->seat, &out_);
  } else if (const auto* drop = std::get_if<DropBatches>(&message.body)) {
    if (current && loaded()) generation_->requests.DropWorker(drop->incarnation, &out_);
  } else if (std::holds_alternative<RebuildTables>(message.body)) {
    // The scheduler sees by the heartbeats' round whether it was done.
    if (!current || !loaded()) return Drain();
    out_.Submit(SchedulerOrder{},
                RequestJob{{}, std::make_shared<const Body>(std::move(message.body))});
  } else if (const auto answer = stop_.Take(message, StopSituation(), now_ms, &out_);
             answer != OrderlyStop::Answer::kNotToThis) {
    if (answer == OrderlyStop::Answer::kTaken) return Drain();
    OnSchedulerError(std::get<ErrorReply>(message.body), now_ms);
  } else if (const auto* shutdown = std::get_if<Shutdown>(&message.body)) {
    OnShutdown(*shutdown);
  } else if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    OnSchedulerError(*error, now_ms);
  }
  return Drain();
}

// A new life of the scheduler knows none of the workers' present lives, so it will never have them
// dropped: they have to begin new ones.
void ServerCore::MeetScheduler(Incarnation life) {
  const bool is_new = scheduler_ != Incarnation() && scheduler_ != life;
  scheduler_ = life;
  if (!is_new) return;
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
    out_.Notice("the scheduler refused: " + error.text);
  }
}

void ServerCore::OnShutdown(const Shutdown& shutdown) {
  if (shutdown.exit_code == static_cast<uint32_t>(ExitCode(ErrorKind::kTryLater))) {
    return out_.Exit(TryLater(shutdown.reason));  // the line is the reason
  }
  out_.Notice(fmt::format("dismissed by the scheduler: {}", shutdown.reason));
  out_.Exit(Status());
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

bool ServerCore::MayAsk(const std::string& address) const {
  if (!generation_) return false;
  return std::ranges::any_of(generation_->seat.plan.servers,
                             [&](const PlanServer& server) { return server.address == address; }) ||
         generation_->slots.MayAsk(address);
}

ServerCore::Effects ServerCore::HandleWorker(const PeerId& peer, Message message, int64_t now_us) {
  OnRequest(peer, std::move(message), now_us);
  return Drain();
}

// What the plan says about a request; the rest is the request table's.
void ServerCore::OnRequest(const PeerId& peer, Message message, int64_t now_us) {
  const Envelope envelope = message.envelope;
  const auto refuse = [&](ErrorCode code, std::string text) {
    out_.Answer(peer, envelope.sequence, ErrorReply{code, std::move(text)});
  };
  if (envelope.run != out_.link().run() || !generation_) {
    return refuse(ErrorCode::kWrongRun, "not in that run");
  }
  const auto* pull = std::get_if<SlotPull>(&message.body);
  if (pull != nullptr && pull->release && loaded()) {
    return OnRelease(peer, envelope, {pull->slot}, now_us);
  }
  const Plan& plan = generation_->seat.plan;
  if (envelope.plan_version < plan.version) {
    out_.Answer(peer, 0, plan);
    return refuse(ErrorCode::kStalePlan, fmt::format("the slot plan is {}", plan.version));
  }
  const bool joins = !loaded() && plan.version != GenerationOf(plan);
  if (!loaded() && !joins) return refuse(ErrorCode::kRefused, "the slots are being loaded");
  if (envelope.plan_version > plan.version || joins || (switching() && pull == nullptr)) {
    if (!generation_->requests.KeepEarly({peer, std::move(message), now_us})) {
      refuse(ErrorCode::kStalePlan, "too many requests wait");
    }
    return;
  }
  if (pull != nullptr) return OnSlotPull(peer, message, *pull, now_us);
  if (without_slots()) return refuse(ErrorCode::kStalePlan, "this server has no slots any more");
  generation_->requests.Take(peer, std::move(message), generation_->seat, now_us, &out_);
}

// From another server, which has the sender's incarnation in the plan.
void ServerCore::OnSlotPull(const PeerId& peer, const Message& message, const SlotPull& pull,
                            int64_t now_us) {
  const Envelope& envelope = message.envelope;
  const ServerSeat& seat = generation_->seat;
  if (pull.slot >= seat.plan.slot_owner.size() || !HasServer(seat.plan, envelope.incarnation)) {
    return out_.Answer(peer, envelope.sequence,
                       ErrorReply{ErrorCode::kRefused,
                                  "SlotPull: no such slot, or not from a server of the plan"});
  }
  Asker asker{peer, envelope.incarnation, envelope.sequence, WirePrecision::kFp32, now_us};
  out_.Submit(PeerRequest{std::move(asker), RequestRound(pull)});
}

void ServerCore::OnRelease(const PeerId& peer, const Envelope& envelope, SlotId slot,
                           int64_t now_us) {
  generation_->slots.OnRelease(envelope, slot, generation_->seat, &out_);
  out_.Answer({peer, envelope.incarnation, envelope.sequence, WirePrecision::kFp32, now_us}, Ack{},
              now_us);
  LeaveIfEmpty();
}

void ServerCore::TakeEarly() {
  for (RequestTable::Early& early : generation_->requests.TakeEarly()) {
    OnRequest(early.peer, std::move(early.message), early.arrived_us);
  }
}

ServerCore::Effects ServerCore::HandleMalformed(const PeerId& peer, const Error& error) {
  malformed_++;
  out_.Notice(fmt::format("malformed message number {}: {}", malformed_, error.message));
  out_.Answer(peer, 0, ErrorReply{ErrorCode::kMalformed, error.message});
  return Drain();
}

ServerCore::Effects ServerCore::HandleServer(Message message, int64_t now_us) {
  if (generation_) {
    generation_->slots.OnAnswer(std::move(message), generation_->seat, now_us / 1000, &out_);
  }
  return Drain();
}

ServerCore::Effects ServerCore::HandleOutcome(ExecutorPool::Outcome outcome, int64_t now_us) {
  if (auto finished = out_.Add(std::move(outcome))) {
    std::visit(
        [&](auto&& purpose) { OnResult(std::move(purpose), std::move(finished->parts), now_us); },
        std::move(finished->purpose));
  }
  return Drain();
}

void ServerCore::OnResult(PeerRequest request, Parts parts, int64_t now_us) {
  generation_->requests.Complete(std::move(request), std::move(parts), generation_->seat, now_us,
                                 &out_);
}

void ServerCore::OnResult(const StepCommit& step, Parts parts, int64_t) {
  out_.ToScheduler(GatherReplies(step.commit, BodiesOf(std::move(parts))));
}

void ServerCore::OnResult(const OwnPull& pull, Parts parts, int64_t now_us) {
  generation_->slots.Complete(pull, std::move(parts), generation_->seat, now_us / 1000, &out_);
}

void ServerCore::OnResult(const SlotMoving& moving, const Parts& parts, int64_t now_us) {
  switch (
      generation_->slots.Complete(*moving.job, parts, generation_->seat, now_us / 1000, &out_)) {
    case SlotMigration::Outcome::kGoesOn:
      return;
    case SlotMigration::Outcome::kAttached:
      return CompletePlanSwitch(now_us);
    case SlotMigration::Outcome::kLost:
      return BeginNewLife(now_us / 1000);
  }
}

void ServerCore::OnResult(const LoadMeasuring& measuring, const Parts& parts, int64_t now_us) {
  load_.Take(measuring, parts, now_us / 1000);
}

// Loaded from all executors, or the first error of any.
void ServerCore::OnResult(const SlotLoading&, const Parts& parts, int64_t now_us) {
  Ready ready{plan_version(), 0, 0};
  for (const JobReply& part : parts) {
    if (const auto* error = std::get_if<Error>(&part)) {
      // The scheduler decides: it may have gone on without this server, and pruned the checkpoint.
      out_.Notice(error->message);
      generation_->load_error = ErrorReply{ErrorCode::kRefused, error->message};
      out_.ToScheduler(*generation_->load_error);
      return;
    }
    ready.rows += std::get<Loaded>(part).rows;
    ready.memory_bytes += std::get<Loaded>(part).memory_bytes;
  }
  generation_->loaded = true;
  generation_->ready = ready;
  load_.Begin(now_us / 1000);
  out_.ToScheduler(ready);
  TakeEarly();
}

void ServerCore::OnResult(const SnapshotMarking&, const Parts& parts, int64_t) {
  generation_->saver.OnMarked(parts, &out_);
}

void ServerCore::OnResult(const SnapshotDropping& dropping, const Parts&, int64_t) {
  if (dropping.gives_up) generation_->saver.OnDropped(&out_);
}

ServerCore::Effects ServerCore::HandleSaved(uint64_t ticket, CheckpointDone done, int64_t now_ms) {
  if (generation_ && generation_->saver.Take(ticket, std::move(done), generation_->seat, &out_) &&
      !generation_->saver.orphaned()) {
    FollowNextPlan(now_ms);
  }
  return Drain();
}

OrderlyStop::Situation ServerCore::StopSituation() const {
  return {loaded(), !without_slots(), generation_ ? generation_->seat.plan.servers.size() : 0,
          config_ ? config_->cluster.drain_s : 0, given_name_};
}

ServerCore::Effects ServerCore::RequestStop(int64_t now_ms) {
  stop_.Request(StopSituation(), now_ms, &out_);
  return Drain();
}

// Its part of the model is saved before it leaves; a scheduler that comes back finds it.
void ServerCore::LeaveWithoutScheduler(int64_t silent_ms) {
  const std::string why =
      fmt::format("nothing heard from the scheduler for {} s", silent_ms / 1000);
  if (!settled() || !generation_->saver.knows_directory()) return out_.Exit(TryLater(why));
  generation_->saver.SaveAndLeave(why, generation_->seat, generation_->requests.committed(), &out_);
}

ServerCore::Effects ServerCore::Tick(const Heartbeat& usage, int64_t now_ms) {
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
  if (loaded()) generation_->slots.Advance(generation_->seat, now_ms, &out_);
  if (!link.HeartbeatDue(now_ms, config_->cluster.heartbeat_ms)) return Drain();
  link.HeartbeatSent(now_ms);
  SendHeartbeat(usage);
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
  beat.malformed = malformed_;
  if (generation_) beat.memory_used_bytes += generation_->requests.reply_bytes();
  out_.ToScheduler(std::move(beat));
}

ServerCore::Effects ServerCore::Goodbye(const Heartbeat& usage) {
  if (!config_) return Drain();
  SendHeartbeat(usage);
  out_.ToScheduler(Leave{});
  return Drain();
}

void ServerCore::CheckInvariants() const {
  out_.jobs().CheckInvariants();
  load_.CheckInvariants();
  stop_.CheckInvariants(out_.link());
  DSLIDE_CHECK(generation_ || (out_.plan_version() == 0 && !load_.measures()));
  if (!generation_) return;
  const Generation& g = *generation_;
  DSLIDE_CHECK(config_ && g.seat.config.cluster.slots == config_->cluster.slots);
  DSLIDE_CHECK(g.seat.plan.version == out_.plan_version());
  DSLIDE_CHECK(g.seat.self == out_.link().incarnation());
  g.seat.CheckInvariants();
  g.slots.CheckInvariants(g.seat);
  g.requests.CheckInvariants(g.seat);
  g.saver.CheckInvariants();

  // Without loaded slots there is nothing to move, to save, to commit or to measure.
  DSLIDE_CHECK(g.loaded || g.load_error || out_.jobs().size() > 0);
  DSLIDE_CHECK(!g.loaded || !g.load_error);
  if (!g.loaded) {
    DSLIDE_CHECK(g.seat.index && !g.next_plan && !g.slots.switching() && !g.saver.saving());
    DSLIDE_CHECK(!g.requests.committed() && g.requests.waiting() == 0 && !load_.measures());
    return;
  }
  // One plan switch or one checkpoint at a time; the next plan waits for either.
  DSLIDE_CHECK(!g.saver.saving() || settled());
  DSLIDE_CHECK(!g.slots.switching() || g.requests.waiting() == 0);
  DSLIDE_CHECK(g.slots.switching() || g.ready.plan_version == g.seat.plan.version);
  DSLIDE_CHECK(!g.next_plan || g.slots.switching() || g.saver.saving() || g.saver.orphaned());
  DSLIDE_CHECK(!g.next_plan || (g.next_plan->version > g.seat.plan.version &&
                                g.seat.IsSameGeneration(*g.next_plan)));
}

}  // namespace dslide
