#include "server/core/request_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/run/combine.h"
#include "common/run/slot_plan.h"
#include "common/run/slot_rows.h"
#include "common/run/step.h"
#include "server/gate/request_bytes.h"

namespace dslide {
namespace {

ErrorReply StalePlan(uint32_t plan_version) {
  return {ErrorCode::kStalePlan, fmt::format("the slot plan is {}", plan_version)};
}

// The reply in place of one with numbers out of range. That to an EmbedPush is about its next
// batch.
Body OutOfRange(const Body& request) {
  if (std::holds_alternative<EmbedPush>(request)) return Ack{};
  return ErrorReply{ErrorCode::kRefused, fmt::format("{}: its numbers lead to numbers that are out "
                                                     "of range",
                                                     BodyName(request))};
}

bool IsOfScheduler(const Body& request) {
  return std::holds_alternative<DropBatches>(request) ||
         std::holds_alternative<CommitSteps>(request) ||
         std::holds_alternative<RebuildTables>(request);
}

bool IsRefused(const Body& reply) { return std::holds_alternative<ErrorReply>(reply); }

// The batch that a request begins to train, and its samples.
struct Beginning {
  BatchId batch;
  uint32_t samples;
};
std::optional<Beginning> BeginningOf(const Body& request) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request); embed && embed->training) {
    return Beginning{embed->batch, embed->features.rows()};
  }
  if (const auto* query = std::get_if<ActiveQuery>(&request); query && query->alone) {
    return Beginning{query->batch, query->hidden.rows};
  }
  return std::nullopt;
}

uint64_t StepOf(const BatchId& batch, const ServerSeat& seat) {
  return StepOf(batch, seat.config.train, seat.train_samples);
}

// Whether other servers than this one have neurons.
bool OthersHaveNeurons(const ServerSeat& seat) {
  const std::vector<bool> has = ServersWith(seat.plan, OutputSlots(seat.config.cluster));
  return std::ranges::count(has, true) > (has[*seat.index] ? 1 : 0);
}

}  // namespace

RequestLimits RequestLimits::For(uint64_t memory_bytes, const Config& config) {
  RequestLimits limits;
  limits.replies = std::max(limits.replies, memory_bytes / 16);
  limits.queue = std::max({limits.queue, memory_bytes / 16, MostWaitingBytes(config)});
  limits.early = MostWaitingBytes(config);
  limits.senders = std::max<size_t>(limits.senders, config.cluster.most_workers);
  return limits;
}

RequestTable::RequestTable(RequestLimits limits)
    : early_({kMaxEarly, limits.queue, limits.early}),
      early_pulls_({kMaxEarly, limits.queue}),
      waiting_({kMaxWaiting, limits.queue}),
      held_({kMaxWaiting, limits.queue}),
      replies_(limits.replies, limits.senders) {}

std::optional<ErrorReply> RequestTable::WhyNotKept(Message* message, const ServerSeat& seat,
                                                   ServerOutbox* out) const {
  const Incarnation sender = message->envelope.incarnation;
  if (fenced_.contains(sender)) {
    return ErrorReply{ErrorCode::kFenced, "the scheduler took this worker for dead; join again"};
  }
  if (std::string why = LeaseGate::Check(sender, &message->body, seat, out); !why.empty()) {
    return ErrorReply{ErrorCode::kRefused, std::move(why)};
  }
  if (LeaseGate::Begins(message->body) || replies_.Knows(sender) || early_.Has(sender)) return {};
  return ErrorReply{ErrorCode::kUnknownBatch, "this sender has begun no batch here"};
}

std::vector<RequestTable::Early> RequestTable::KeepEarly(Early request) {
  const Incarnation sender = request.message.envelope.incarnation;
  const Body& body = request.message.body;
  const uint64_t bytes = BytesInMemory(body);
  auto& queue = std::holds_alternative<SlotPull>(body) ? early_pulls_ : early_;
  return queue.Add(0, sender, bytes, std::move(request));
}

std::vector<RequestTable::Early> RequestTable::TakeEarly() {
  std::vector<Early> all = early_pulls_.TakeAll();
  std::ranges::move(early_.TakeAll(), std::back_inserter(all));
  return all;
}

// As many steps before it as train.staleness allows may be uncommitted.
bool RequestTable::MustWait(const Body& request, const ServerSeat& seat) const {
  if (!IsSynchronous(seat.config.train)) return false;
  const std::optional<Beginning> begins = BeginningOf(request);
  if (!begins) return false;
  const auto staleness = static_cast<uint64_t>(seat.config.train.staleness);
  return !committed_ || StepOf(begins->batch, seat) > *committed_ + staleness;
}

// Why a request is refused before any executor sees it; empty if it is not.
std::string RequestTable::WhyRefused(const Body& request, const ServerSeat& seat) const {
  if (IsOfScheduler(request)) {
    return fmt::format("only the scheduler sends {}", BodyName(request));
  }
  const std::optional<Beginning> begins = BeginningOf(request);
  if (begins && MustWait(request, seat) &&
      SamplesOf(begins->batch, seat.config.train, seat.train_samples) != begins->samples) {
    return fmt::format("{}: the run has no such batch of so many samples", BodyName(request));
  }
  const auto* query = std::get_if<ActiveQuery>(&request);
  if (query != nullptr && query->finish && OthersHaveNeurons(seat)) {
    return "ActiveQuery: finish is for a server that has all neurons";
  }
  if (const auto* top = std::get_if<TopKRequest>(&request); top && top->k > kMostRanked) {
    return fmt::format("TopKRequest: k is {}, at most {} are ranked", top->k, kMostRanked);
  }
  return "";
}

Verdict RequestTable::Admit(Message* message, const ServerSeat& seat, int64_t now_us,
                            ServerOutbox* out) {
  const auto refuse = [](std::string why) {
    return verdict::Refuse{{ErrorCode::kRefused, std::move(why)}};
  };
  if (std::string why = WhyRefused(message->body, seat); !why.empty()) {
    return refuse(std::move(why));
  }
  if (std::optional<ErrorReply> why = WhyNotKept(message, seat, out)) {
    return verdict::Refuse{*std::move(why)};
  }
  const Incarnation incarnation = message->envelope.incarnation;
  const uint64_t sequence = message->envelope.sequence;
  switch (replies_.Begin(incarnation, sequence, now_us / 1000)) {
    case ReplyCache::Seen::kNew:
      return verdict::Serve();
    case ReplyCache::Seen::kInProgress:
      return verdict::Ignore();
    case ReplyCache::Seen::kAnswered:
      return verdict::Repeat{replies_.Reply(incarnation, sequence)};
    case ReplyCache::Seen::kForgotten:
      return refuse("that request was answered long ago");
    case ReplyCache::Seen::kTooMany:
      return refuse(fmt::format("more than {} requests are open", ReplyCache::kKept));
  }
  return verdict::Ignore();
}

void RequestTable::Serve(const PeerId& peer, Message message, const ServerSeat& seat,
                         int64_t now_us, ServerOutbox* out) {
  const Envelope& envelope = message.envelope;
  numbers_.TakeOutNext(envelope.incarnation, &message.body, out);
  const std::optional<BatchEnd> ends = LeaseGate::EndOf(message.body, seat);
  RequestRound round(std::move(message.body));
  Accept({{peer, envelope.incarnation, envelope.sequence, envelope.reply_precision, now_us,
           envelope.plan_version, ends},
          std::move(round)},
         seat, now_us, out);
}

// A request that counts.
void RequestTable::Accept(PeerRequest request, const ServerSeat& seat, int64_t now_us,
                          ServerOutbox* out) {
  const Body& body = *request.round.request();
  const Incarnation sender = request.asker.incarnation;
  if (std::string why = numbers_.WhyRefused(sender, body, seat, out); !why.empty()) {
    return Reply(request.asker, ErrorReply{ErrorCode::kRefused, std::move(why)}, now_us, out);
  }
  if (!MustWait(body, seat)) return Submit(std::move(request), now_us, out);
  Wait(StepOf(BeginningOf(body)->batch, seat), std::move(request), now_us, out);
}

void RequestTable::Wait(uint64_t step, PeerRequest request, int64_t now_us, ServerOutbox* out) {
  const Incarnation sender = request.asker.incarnation;
  const uint64_t bytes = BytesInMemory(*request.round.request());
  for (const PeerRequest& dropped : waiting_.Add(step, sender, bytes, std::move(request))) {
    Reply(dropped.asker,
          ErrorReply{
              ErrorCode::kRefused,
              fmt::format("{} requests wait for their steps, no more are taken", waiting_.size())},
          now_us, out);
  }
}

// To the executors, or behind the sender's other requests.
void RequestTable::Submit(PeerRequest request, int64_t now_us, ServerOutbox* out) {
  const Incarnation sender = request.asker.incarnation;
  size_t& jobs = jobs_[sender];
  if (jobs < kMostJobsOfSender && !held_.Has(sender)) {
    ++jobs;
    return out->Submit(std::move(request));
  }
  const uint64_t bytes = BytesInMemory(*request.round.request());
  for (const PeerRequest& dropped : held_.Add(0, sender, bytes, std::move(request))) {
    Reply(dropped.asker, ErrorReply{ErrorCode::kRefused, "too many requests wait"}, now_us, out);
  }
}

void RequestTable::EndJob(Incarnation sender, ServerOutbox* out) {
  const auto jobs = jobs_.find(sender);
  if (jobs == jobs_.end()) return;
  if (std::optional<PeerRequest> next = held_.TakeFrontOf(sender)) {
    return out->Submit(*std::move(next));
  }
  if (--jobs->second == 0) jobs_.erase(jobs);
}

void RequestTable::Complete(PeerRequest request, std::vector<JobReply> parts,
                            const ServerSeat& seat, int64_t now_us, ServerOutbox* out) {
  const Incarnation sender = request.asker.incarnation;
  const std::shared_ptr<const Body> asked = request.round.request();
  std::vector<Body> bodies = BodiesOf(std::move(parts));
  const auto refused = static_cast<size_t>(std::ranges::count_if(bodies, IsRefused));
  const bool carried_out = refused < bodies.size();  // by some executors at least
  const bool whole = refused == 0;
  const bool of_worker = request.asker.plan_version != 0;
  const RequestRound::Progress progress = request.round.Gather(std::move(bodies));
  if (progress == RequestRound::Progress::kSecondRound) {
    NoteForAudit(request.asker, *asked, {whole}, seat, out);
    numbers_.NoteInRange(sender, *asked, out);
    losses_.OnReply(sender, std::get<ActiveQuery>(*asked), *request.round.active(), seat);
    // Under another plan the executors have dropped the batch.
    if (request.asker.plan_version == seat.plan.version) return out->Submit(std::move(request));
    EndJob(sender, out);
    return Reply(request.asker, StalePlan(seat.plan.version), now_us, out);
  }
  const bool out_of_range = progress == RequestRound::Progress::kOutOfRange;
  if (out_of_range && of_worker && numbers_.IsDiverged(sender, *asked)) {
    const ErrorReply diverged{ErrorCode::kRefused,
                              "training diverged: numbers are no longer finite; lower "
                              "train.learning_rate and go on from an earlier checkpoint"};
    out->ToScheduler(diverged);
    return out->Exit(Failed(diverged.text));
  }
  if (of_worker) EndJob(sender, out);
  Body reply = out_of_range ? OutOfRange(*asked) : request.round.TakeReply();
  const bool answers = !IsRefused(reply) && !std::holds_alternative<Ack>(reply);
  if (of_worker && answers) numbers_.NoteInRange(sender, *asked, out);
  if (carried_out) {
    NoteForAudit(request.asker, *asked, {whole, std::holds_alternative<EmbedReply>(reply)}, seat,
                 out);
  }
  NoteStatistics(sender, *asked, seat, &reply);
  LeaseGate::Prove(seat, &losses_, &request.asker);
  Reply(request.asker, std::move(reply), now_us, out);
}

// A refused push leaves the loss as it is. After a second round the loss has log Z already.
void RequestTable::NoteStatistics(Incarnation sender, const Body& request, const ServerSeat& seat,
                                  Body* reply) {
  if (auto* statistics = std::get_if<ActiveReply>(reply)) {
    const auto& query = std::get<ActiveQuery>(request);
    Condense(statistics);
    numbers_.NoteReply(sender, query.batch, *statistics);
    losses_.OnReply(sender, query, *statistics, seat);
  } else if (auto* gradient = std::get_if<GradientReply>(reply)) {
    const auto* push = std::get_if<GradientPush>(&request);
    if (gradient->active) {
      Condense(&*gradient->active);
    } else if (push != nullptr) {
      losses_.OnPush(sender, *push);
    }
  }
}

// Of batches whose work the executors still hold: with a plan switch, and when a step is committed,
// they drop it.
void RequestTable::NoteForAudit(const Asker& asker, const Body& request, AuditBook::Outcome outcome,
                                const ServerSeat& seat, ServerOutbox* out) {
  if (seat.config.train.audit <= 0.0f || asker.plan_version != seat.plan.version) return;
  const std::optional<BatchId> batch = BatchOf(request);
  if (!batch || StepOf(*batch, seat) < committed_.value_or(0)) return;
  if (auto report = audits_.Note(asker.incarnation, request, outcome)) {
    out->ToScheduler(*std::move(report));
  }
}

void RequestTable::Reply(const Asker& asker, Body body, int64_t now_us, ServerOutbox* out) {
  replies_.Finish(asker.incarnation, asker.sequence, out->Answer(asker, std::move(body), now_us),
                  now_us / 1000);
}

void RequestTable::OnCommit(const CommitSteps& commit, const ServerSeat& seat, ServerOutbox* out) {
  const auto body = std::make_shared<const Body>(commit);
  out->Submit(SchedulerRequest{body}, RequestJob{{}, body});
  committed_ = std::max(committed_.value_or(0), commit.committed);
  audits_.Forget([&](const BatchId& batch) { return StepOf(batch, seat) < *committed_; });
  while (!waiting_.empty() && !MustWait(*waiting_.front().round.request(), seat)) {
    PeerRequest request = waiting_.TakeFront();
    const int64_t arrived_us = request.asker.arrived_us;
    Submit(std::move(request), arrived_us, out);
  }
}

void RequestTable::DropWorker(Incarnation worker, ServerOutbox* out) {
  replies_.Forget(worker);
  numbers_.DropWorker(worker);
  losses_.DropWorker(worker);
  fenced_.insert(worker);
  waiting_.DropSender(worker);
  held_.DropSender(worker);
  out->Submit(SchedulerOrder{}, RequestJob{{}, std::make_shared<const Body>(DropBatches{worker})});
}

void RequestTable::DropSilent(int64_t before_ms, ServerOutbox* out) {
  for (const Incarnation sender : replies_.SilentSince(before_ms)) {
    replies_.Forget(sender);
    numbers_.DropWorker(sender);
    losses_.DropWorker(sender);
    out->Submit(SchedulerOrder{},
                RequestJob{{}, std::make_shared<const Body>(DropBatches{sender})});
  }
}

void RequestTable::RefuseWaiting(uint32_t plan_version, int64_t now_us, ServerOutbox* out) {
  for (auto* queue : {&waiting_, &held_}) {
    for (const PeerRequest& request : queue->TakeAll()) {
      Reply(request.asker, StalePlan(plan_version), now_us, out);
    }
  }
  audits_ = AuditBook();  // executors drop what is not committed
}

void RequestTable::CheckInvariants(const ServerSeat& seat) const {
  early_.CheckInvariants();
  early_pulls_.CheckInvariants();
  waiting_.CheckInvariants();
  held_.CheckInvariants();
  replies_.CheckInvariants();
  DSLIDE_CHECK(waiting_.empty() || MustWait(*waiting_.front().round.request(), seat));
}

}  // namespace dslide
