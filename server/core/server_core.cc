#include "server/core/server_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/random.h"
#include "common/run/combine.h"
#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "server/executor/gather.h"

namespace dslide {
namespace {

constexpr int64_t kJoinRetryMs = 2000;
constexpr int64_t kJoinAgainMs = 200;  // after a refusal
constexpr int64_t kTablesMs = 5000;

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// Whether a reply's floats are what the protocol allows; a diverged model's are not.
bool IsFinite(const Body& reply) {
  if (const auto* embed = std::get_if<EmbedReply>(&reply)) return AllFinite(embed->partial.data);
  if (const auto* gradient = std::get_if<GradientReply>(&reply)) {
    return AllFinite(gradient->partial.data);
  }
  if (const auto* active = std::get_if<ActiveReply>(&reply)) {
    return AllFinite(active->sum_exp) && AllFinite(active->target_logit) &&
           AllFinite(active->loss) &&
           std::none_of(active->max.begin(), active->max.end(),
                        [](float x) { return std::isnan(x) || x == HUGE_VALF; });
  }
  if (const auto* top = std::get_if<TopKReply>(&reply)) return AllFinite(top->scores);
  return true;
}

}  // namespace

ServerCore::ServerCore(Identity identity) : identity_(std::move(identity)) {}

ServerCore::Effects ServerCore::Drain() {
  CheckInvariants();
  return std::exchange(effects_, Effects());
}

Message ServerCore::Envelop(Body body, uint64_t reply_to) {
  return {{run_, identity_.incarnation, next_sequence_++, reply_to, plan_ ? plan_->version : 0},
          std::move(body)};
}

// Plans of one generation carry the same state on, so what was said under an earlier one holds.
bool ServerCore::IsOfThisGeneration(const Envelope& envelope) const {
  return plan_ && envelope.plan_version <= (next_plan_ ? *next_plan_ : *plan_).version &&
         envelope.plan_version >= GenerationOf(*plan_);
}

ServerCore::Effects ServerCore::HandleScheduler(Message message, int64_t now_ms) {
  if (message.envelope.reply_to != 0 && message.envelope.reply_to < life_sequence_) return Drain();
  heard_ms_ = now_ms;
  if (!saves_orphan_) orphaned_ = false;
  MeetScheduler(message.envelope.incarnation);
  const bool current = IsOfThisGeneration(message.envelope);
  if (const auto* reply = std::get_if<JoinReply>(&message.body)) {
    OnJoinReply(message, *reply);
  } else if (const auto* plan = std::get_if<Plan>(&message.body)) {
    OnPlan(*plan, now_ms);
  } else if (const auto* move = std::get_if<MoveSlots>(&message.body)) {
    if (current) OnMoveSlots(*move, now_ms);
  } else if (const auto* checkpoint = std::get_if<CheckpointRequest>(&message.body)) {
    if (current && message.envelope.plan_version == plan_->version) OnCheckpoint(*checkpoint);
  } else if (const auto* commit = std::get_if<CommitSteps>(&message.body)) {
    if (current) OnCommit(*commit);
  } else if (const auto* drop = std::get_if<DropBatches>(&message.body)) {
    if (current) OnDrop(*drop);
  } else if (std::holds_alternative<RebuildTables>(message.body)) {
    // The scheduler sees by the heartbeats' round whether it was done.
    if (current && loaded_) Submit(Open(Open::Kind::kRequest, std::move(message.body)));
  } else if (AnswersStop(message, now_ms)) {
    return Drain();
  } else if (const auto* shutdown = std::get_if<Shutdown>(&message.body)) {
    effects_.notices.push_back(fmt::format("the scheduler ends the run: {}", shutdown->reason));
    effects_.exit = Status();
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
  move_ = 0;  // it numbers its moves anew
  move_ready_ = false;
  stop_unheard_ = stop_sequence_.has_value();
  for (const Incarnation worker : replies_.Senders()) OnDrop({worker});
}

void ServerCore::OnDrop(const DropBatches& drop) {
  if (!loaded_) return;
  replies_.Forget(drop.incarnation);
  fenced_.insert(drop.incarnation);
  std::erase_if(waiting_, [&](const auto& entry) {
    return entry.second.asker.incarnation == drop.incarnation;
  });
  Submit(Open(Open::Kind::kRequest, drop));
}

// The executors work in the order of submission: what waited for a step comes behind its commit.
void ServerCore::OnCommit(const CommitSteps& commit) {
  if (!loaded_) return;  // the scheduler sends it again
  Submit(Open(Open::Kind::kCommit, commit));
  committed_ = std::max(committed_.value_or(0), commit.committed);
  for (auto next = waiting_.begin(); next != waiting_.end() && !MustWait(*next->second.request);
       next = waiting_.erase(next)) {
    Submit(std::move(next->second));
  }
}

void ServerCore::OnSchedulerError(const ErrorReply& error, int64_t now_ms) {
  if (error.code == ErrorCode::kFenced) {
    BeginNewLife(now_ms);
  } else if (error.code == ErrorCode::kWrongRun) {
    // A new life of the scheduler, or one that had given this server up.
    if (now_ms - join_sent_ms_ >= kJoinAgainMs) SendJoin(now_ms);
  } else if (!config_) {
    effects_.exit =
        error.code == ErrorCode::kIncompatible ? BadInput(error.text) : TryLater(error.text);
  } else {
    effects_.notices.push_back("the scheduler refused: " + error.text);
  }
}

uint64_t ServerCore::OpenTicket(Open open) {
  open.parts.resize(executors_);
  open.missing = executors_;
  const uint64_t ticket = next_ticket_++;
  open_.emplace(ticket, std::move(open));
  return ticket;
}

void ServerCore::Submit(Open open) {
  Work work{0, open.asker.incarnation, open.request, open.job, open.asker.plan_version};
  work.ticket = OpenTicket(std::move(open));
  effects_.work.push_back(std::move(work));
}

// A batch's first request waits until its step is open: as many before it as train.staleness allows
// may be uncommitted.
bool ServerCore::MustWait(const Body& request) const {
  const auto* embed = std::get_if<EmbedRequest>(&request);
  if (embed == nullptr || !embed->training || !IsSynchronous(config_->train)) return false;
  const auto staleness = static_cast<uint64_t>(config_->train.staleness);
  return !committed_ ||
         StepOf(embed->batch, config_->train, train_samples_) > *committed_ + staleness;
}

// What this server can tell without its executors; empty: nothing against it.
std::string ServerCore::WhyRefused(const Body& request) const {
  if (std::holds_alternative<DropBatches>(request) ||
      std::holds_alternative<CommitSteps>(request) ||
      std::holds_alternative<RebuildTables>(request)) {
    return fmt::format("only the scheduler sends {}", BodyName(request));
  }
  const auto* embed = std::get_if<EmbedRequest>(&request);
  if (embed != nullptr && MustWait(request) &&
      SamplesOf(embed->batch, config_->train, train_samples_) != embed->features.rows()) {
    return "EmbedRequest: the run has no such batch of so many samples";
  }
  const auto* query = std::get_if<ActiveQuery>(&request);
  if (query != nullptr && query->finish && plan_->servers.size() != 1) {
    return "ActiveQuery: finish is for clusters of one server";
  }
  return "";
}

ServerCore::Effects ServerCore::HandleWorker(const PeerId& peer, Message message, int64_t now_us) {
  OnRequest(peer, std::move(message), now_us);
  return Drain();
}

void ServerCore::OnRequest(const PeerId& peer, Message message, int64_t now_us) {
  const Envelope envelope = message.envelope;
  const auto refuse = [&](ErrorCode code, std::string text) {
    Refuse(peer, envelope.sequence, {code, std::move(text)});
  };
  if (envelope.run != run_ || !plan_) return refuse(ErrorCode::kWrongRun, "not in that run");
  const auto* pull = std::get_if<SlotPull>(&message.body);
  if (pull != nullptr && pull->release && loaded_) {
    return OnRelease(peer, envelope, {pull->slot}, now_us);
  }
  if (envelope.plan_version < plan_->version) {
    effects_.to_workers.emplace_back(peer, Encode(Envelop(*plan_), WirePrecision::kFp32));
    return refuse(ErrorCode::kStalePlan, fmt::format("the slot plan is {}", plan_->version));
  }
  const bool joins = !loaded_ && plan_->version != GenerationOf(*plan_);
  if (!loaded_ && !joins) return refuse(ErrorCode::kRefused, "the slots are being loaded");
  if (envelope.plan_version > plan_->version || joins || (switch_ && pull == nullptr)) {
    if (early_.size() >= kMaxEarly) return refuse(ErrorCode::kStalePlan, "too many requests wait");
    early_.push_back({peer, std::move(message), now_us});
    return;
  }
  if (pull != nullptr) return OnSlotPull(peer, message, *pull, now_us);
  if (without_slots_) return refuse(ErrorCode::kStalePlan, "this server has no slots any more");
  if (fenced_.contains(envelope.incarnation)) {
    return refuse(ErrorCode::kFenced, "the scheduler took this worker for dead; join again");
  }
  if (std::string why = WhyRefused(message.body); !why.empty()) {
    return refuse(ErrorCode::kRefused, std::move(why));
  }
  switch (replies_.Begin(envelope.incarnation, envelope.sequence)) {
    case ReplyCache::Seen::kInProgress:
      return;
    case ReplyCache::Seen::kAnswered:
      effects_.to_workers.emplace_back(peer,
                                       replies_.Reply(envelope.incarnation, envelope.sequence));
      return;
    case ReplyCache::Seen::kForgotten:
      return refuse(ErrorCode::kRefused, "that request was answered long ago");
    case ReplyCache::Seen::kNew:
      break;
  }
  Open open(Open::Kind::kRequest, std::move(message.body));
  open.asker = {peer,   envelope.incarnation, envelope.sequence, envelope.reply_precision,
                now_us, envelope.plan_version};
  if (!MustWait(*open.request)) {
    Submit(std::move(open));
  } else if (waiting_.size() >= kMaxWaiting) {
    ReplyTo(open.asker,
            ErrorReply{ErrorCode::kRefused,
                       fmt::format("{} requests wait for their steps, no more are taken",
                                   waiting_.size())},
            now_us);
  } else {
    const BatchId& batch = std::get<EmbedRequest>(*open.request).batch;
    waiting_.emplace(StepOf(batch, config_->train, train_samples_), std::move(open));
  }
}

ServerCore::Effects ServerCore::HandleMalformed(const PeerId& peer, const Error& error) {
  malformed_++;
  effects_.notices.push_back(
      fmt::format("malformed message number {}: {}", malformed_, error.message));
  Refuse(peer, 0, {ErrorCode::kMalformed, error.message});
  return Drain();
}

ServerCore::Effects ServerCore::HandleOutcome(ExecutorPool::Outcome outcome, int64_t now_us) {
  const auto found = open_.find(outcome.ticket);
  if (found == open_.end()) return Drain();
  Open& open = found->second;
  DSLIDE_CHECK(!open.parts[outcome.executor]);
  open.parts[outcome.executor] = std::move(outcome.part);
  if (--open.missing > 0) return Drain();
  Open complete = std::move(open);
  open_.erase(found);
  Complete(std::move(complete), now_us);
  return Drain();
}

void ServerCore::CompleteRequest(Open open, std::vector<Body> parts, int64_t now_us) {
  Body reply = GatherReplies(*open.request, std::move(parts));
  if (!IsFinite(reply)) {
    const ErrorReply diverged{ErrorCode::kRefused,
                              "training diverged: numbers are no longer finite; lower "
                              "train.learning_rate and go on from an earlier checkpoint"};
    effects_.to_scheduler.push_back(Envelop(diverged));
    effects_.exit = Failed(diverged.text);
    return;
  }
  if (open.asker.peer.empty()) return;
  if (auto push = SecondRound(*open.request, reply)) {
    if (open.asker.plan_version != plan_->version) {  // the executors have dropped the batch
      return ReplyTo(
          open.asker,
          ErrorReply{ErrorCode::kStalePlan, fmt::format("the slot plan is {}", plan_->version)},
          now_us);
    }
    open.request = std::make_shared<const Body>(std::move(*push));
    open.active = std::get<ActiveReply>(std::move(reply));
    open.parts.clear();
    return Submit(std::move(open));
  }
  auto* gradient = std::get_if<GradientReply>(&reply);
  if (gradient != nullptr) gradient->active = std::move(open.active);
  if (auto* statistics = std::get_if<ActiveReply>(&reply)) Condense(statistics);
  if (gradient != nullptr && gradient->active) Condense(&*gradient->active);
  ReplyTo(open.asker, std::move(reply), now_us);
}

void ServerCore::Complete(Open open, int64_t now_us) {
  std::vector<Body> parts;
  for (auto& part : open.parts) parts.push_back(std::move(*part));
  if (open.kind == Open::Kind::kRequest) {
    return CompleteRequest(std::move(open), std::move(parts), now_us);
  }
  if (open.kind == Open::Kind::kMeasure) return NoteMeasured(parts, now_us / 1000);
  if (open.kind == Open::Kind::kSlotJob) return CompleteSlotJob(*open.job, parts, now_us);
  if (open.kind == Open::Kind::kOwnPull) {
    Body rows = GatherReplies(*open.request, std::move(parts));
    if (auto* part = std::get_if<SlotRows>(&rows)) {
      return TakeRows(std::move(*part), now_us / 1000);
    }
    return fetcher_.Refused({std::get<SlotPull>(*open.request).slot}, now_us / 1000);
  }
  if (open.kind == Open::Kind::kCommit) {
    effects_.to_scheduler.push_back(Envelop(GatherReplies(*open.request, std::move(parts))));
    return;
  }
  // Load: Ready from all, or the first error of any.
  Body first = parts[0];
  for (const Body& part : parts) {
    if (std::holds_alternative<ErrorReply>(part)) {
      first = part;
      break;
    }
  }
  const auto* error = std::get_if<ErrorReply>(&first);
  if (error != nullptr) {
    // The scheduler decides: it may have gone on without this server, and the checkpoint be gone.
    effects_.notices.push_back(error->text);
    effects_.to_scheduler.push_back(Envelop(*error));
    load_error_ = *error;
    return;
  }
  loaded_ = true;
  load_since_ms_ = now_us / 1000;
  load_since_cpu_s_ = cpu_s_;
  ready_ = Ready{plan_->version, 0, 0};
  for (const Body& part : parts) {
    ready_.rows += std::get<Ready>(part).rows;
    ready_.memory_bytes += std::get<Ready>(part).memory_bytes;
  }
  effects_.to_scheduler.push_back(Envelop(ready_));
  TakeEarly();
}

void ServerCore::TakeEarly() {
  for (Early& early : std::exchange(early_, {})) {
    OnRequest(early.peer, std::move(early.message), early.arrived_us);
  }
}

// Under a CPU quota a server that has little to do works in bursts as fast as any, and one that has
// used its quota up stands still: the share of the quota that is used tells how busy it is. Without
// that, slots that a server gives away would seem to make it faster, and come back.
void ServerCore::ApplyQuota(LoadReport* load) const {
  double busy = 0;
  for (const float share : load->busy) busy += double{share};
  const double used = (cpu_s_ - load_since_cpu_s_) / std::max(1u, load->interval_ms) * 1000;
  if (identity_.cpu_quota <= 0 || busy <= 0 || used <= 0) return;
  const double of_quota = std::min(1.0, used / identity_.cpu_quota);
  const double factor = std::max(1.0, of_quota * static_cast<double>(load->busy.size()) / busy);
  for (float& share : load->busy) share = static_cast<float>(std::min(1.0, factor * double{share}));
}

// Over executors that have rows in tables: the means' mean, the round that all have reached. Over
// all: the sum of their memory and loads, the largest of the rest.
void ServerCore::NoteMeasured(const std::vector<Body>& parts, int64_t now_ms) {
  Heartbeat sum;
  if (!measuring_->tables) sum = measured_;
  sum.batches_in_flight = 0;
  sum.memory_used_bytes = 0;
  const auto has_rows = [](const Body& part) {
    const auto* beat = std::get_if<Heartbeat>(&part);
    return beat != nullptr && beat->bucket_largest > 0;
  };
  const auto filled = static_cast<float>(std::ranges::count_if(parts, has_rows));
  if (measuring_->tables && filled > 0) sum.hash_round = ~0u;
  for (const Body& part : parts) {
    const auto* beat = std::get_if<Heartbeat>(&part);
    if (beat == nullptr) continue;
    sum.batches_in_flight = std::max(sum.batches_in_flight, beat->batches_in_flight);
    sum.memory_used_bytes += beat->memory_used_bytes;
    if (!measuring_->tables) continue;
    if (has_rows(part)) {
      sum.bucket_mean += beat->bucket_mean / filled;
      sum.bucket_empty_share += beat->bucket_empty_share / filled;
      sum.hash_round = std::min(sum.hash_round, beat->hash_round);
    }
    sum.bucket_p99 = std::max(sum.bucket_p99, beat->bucket_p99);
    sum.bucket_largest = std::max(sum.bucket_largest, beat->bucket_largest);
    sum.rehash_lag_batches = std::max(sum.rehash_lag_batches, beat->rehash_lag_batches);
  }
  sum.load = GatherLoads(parts, static_cast<uint32_t>(now_ms - load_since_ms_));
  ApplyQuota(&*sum.load);
  constexpr double kNewShare = 0.2;
  for (size_t i = 0; i < sum.load->slots.size() && sum.load->batches > 0; ++i) {
    const double work = double{1.0} * sum.load->work[i] / sum.load->batches;
    const auto [known, is_new] = slot_work_.try_emplace({sum.load->slots[i]}, work);
    if (!is_new) known->second += kNewShare * (work - known->second);
  }
  load_since_ms_ = now_ms;
  load_since_cpu_s_ = cpu_s_;
  measured_ = std::move(sum);
  measuring_.reset();
}

void ServerCore::Refuse(const PeerId& peer, uint64_t sequence, ErrorReply error) {
  effects_.to_workers.emplace_back(
      peer, Encode(Envelop(std::move(error), sequence), WirePrecision::kFp32));
}

// Answers, and remembers the answer for those who ask again.
void ServerCore::ReplyTo(const Asker& asker, Body body, int64_t now_us) {
  Message message = Envelop(std::move(body), asker.sequence);
  message.envelope.service_us =
      static_cast<uint32_t>(std::max<int64_t>(0, now_us - asker.arrived_us));
  auto bytes = std::make_shared<const Bytes>(Encode(message, asker.precision));
  replies_.Finish(asker.incarnation, asker.sequence, bytes);
  effects_.to_workers.emplace_back(asker.peer, *bytes);
}

ServerCore::Effects ServerCore::Tick(const Heartbeat& usage, int64_t now_ms) {
  cpu_s_ = usage.cpu_seconds;
  const int64_t patience_ms =
      config_ ? int64_t{1000} * config_->cluster.scheduler_silence_s : kJoinPatienceMs;
  TendStop(now_ms);
  if (now_ms - heard_ms_ > patience_ms) {
    LeaveWithoutScheduler(patience_ms);
    return Drain();
  }
  if (!config_) {
    if (now_ms - join_sent_ms_ >= kJoinRetryMs) SendJoin(now_ms);
    return Drain();
  }
  if (loaded_) AdvanceMoves(now_ms);
  if (now_ms - heartbeat_ms_ < config_->cluster.heartbeat_ms) return Drain();
  heartbeat_ms_ = now_ms;
  SendHeartbeat(usage);
  if (loaded_ && !measuring_) Measure(now_ms);
  return Drain();
}

// For the next heartbeat; the state of the tables changes slowly, and reading it takes longer.
void ServerCore::Measure(int64_t now_ms) {
  const bool tables = now_ms - tables_ms_ >= kTablesMs;
  if (tables) tables_ms_ = now_ms;
  measuring_ = Measurement{OpenTicket(Open(Open::Kind::kMeasure)), tables};
  effects_.measure = measuring_;
}

void ServerCore::SendHeartbeat(const Heartbeat& usage) {
  Heartbeat beat = measured_;
  measured_.load.reset();  // it is of its interval alone
  beat.cpu_seconds = usage.cpu_seconds;
  beat.peak_rss_bytes = usage.peak_rss_bytes;
  beat.bytes_sent = usage.bytes_sent;
  beat.bytes_received = usage.bytes_received;
  beat.malformed = malformed_;
  effects_.to_scheduler.push_back(Envelop(std::move(beat)));
}

}  // namespace dslide
