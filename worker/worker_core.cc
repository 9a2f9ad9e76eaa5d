#include "worker/worker_core.h"

#include <fmt/core.h>

#include "common/config/step.h"

namespace dslide {
namespace {

constexpr int64_t kJoinRetryMs = 2000;
constexpr int64_t kSenselessGrantMs = 2000;  // until the next request, so as not to take them all

}  // namespace

WorkerCore::WorkerCore(Incarnation incarnation, std::string name, uint32_t cores,
                       const TrainingFile* file)
    : incarnation_(incarnation), name_(std::move(name)), cores_(cores), local_(file) {}

WorkerCore::Effects WorkerCore::Take() { return std::exchange(effects_, Effects()); }

uint64_t WorkerCore::Send(uint32_t to, Body body) {
  const uint64_t sequence = next_sequence_++;
  effects_.send.push_back(
      {to, {{run_, incarnation_, sequence, 0, plan_.version}, std::move(body)}});
  return sequence;
}

WorkerCore::Effects WorkerCore::Start(int64_t now_ms) {
  Join join;
  join.role = Role::kWorker;
  join.name = name_;
  join.cores = cores_;
  Send(kScheduler, std::move(join));
  join_sent_ms_ = now_ms;
  if (heard_ms_ == 0) heard_ms_ = now_ms;  // patience begins
  return Take();
}

WorkerCore::Effects WorkerCore::Handle(uint32_t from, Message message, size_t bytes,
                                       int64_t now_ms) {
  if (from != kScheduler) {
    OnServerReply(from, std::move(message), bytes, now_ms);
    return Take();
  }
  heard_ms_ = now_ms;
  if (const auto* reply = std::get_if<JoinReply>(&message.body)) {
    OnJoinReply(message, *reply);
  } else if (const auto* plan = std::get_if<Plan>(&message.body)) {
    OnPlan(*plan, now_ms);
  } else if (auto* grant = std::get_if<LeaseGrant>(&message.body)) {
    OnGrant(std::move(*grant), now_ms);
  } else if (const auto* wait = std::get_if<LeaseWait>(&message.body)) {
    lease_asked_ms_.reset();
    lease_retry_ms_ = now_ms + wait->retry_ms;
  } else if (const auto* shutdown = std::get_if<Shutdown>(&message.body)) {
    effects_.notices.push_back(fmt::format("the scheduler ends the run: {}", shutdown->reason));
    effects_.exit = Status();
  } else if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    OnError(*error, now_ms);
  }
  return Take();
}

void WorkerCore::OnJoinReply(const Message& message, const JoinReply& reply) {
  Result<Config> config = ParseConfig(reply.config, "configuration from the scheduler");
  if (!config.ok()) {
    effects_.exit = config.error();
    return;
  }
  if (config_ != nullptr && message.envelope.run == run_) return;
  run_ = message.envelope.run;
  if (const Status fits = local_.Join(*config, reply); !fits.ok()) {
    Send(kScheduler, Leave{});  // here, because it has not joined and so says no goodbye
    effects_.exit = fits;
    return;
  }
  flights_.clear();
  pending_.clear();
  queue_.clear();
  planned_ = false;
  config_ = std::make_unique<Config>(std::move(*config));
  train_samples_ = reply.train_samples;
  name_ = reply.name;
  effects_.notices.push_back(
      fmt::format("joined as {}{}", name_, local_.in_use() ? ", with the training data" : ""));
}

void WorkerCore::OnPlan(const Plan& plan, int64_t now_ms) {
  if (config_ == nullptr || plan.servers.empty() || plan.slot_owner.empty()) return;
  for (const uint16_t owner : plan.slot_owner) {
    if (owner >= plan.servers.size()) return;
  }
  plan_ = plan;
  planned_ = true;
  effects_.connect = plan;
  RequestLease(now_ms);
}

void WorkerCore::RequestLease(int64_t now_ms) {
  if (!planned_ || stopping_ || lease_asked_ms_ || now_ms < lease_retry_ms_) return;
  // The next unit is asked for while the last batches of this one are on their way.
  if (queue_.size() > config_->train.batches_in_flight) return;
  Send(kScheduler, LeaseRequest{local_.in_use()});
  lease_asked_ms_ = now_ms;
}

void WorkerCore::OnGrant(LeaseGrant grant, int64_t now_ms) {
  lease_asked_ms_.reset();
  if (!planned_) return;
  if (const Status usable = local_.Complete(*config_, &grant); !usable.ok()) {
    effects_.notices.push_back("a lease is not taken: " + usable.error().message);
    lease_retry_ms_ = now_ms + kSenselessGrantMs;
    return;
  }
  std::vector<LeaseBatch> batches = std::move(grant.batches);
  grant.batches.clear();
  for (LeaseBatch& batch : batches) queue_.push_back({grant, std::move(batch)});
  Fill(now_ms);
}

// Starts leased batches up to the number that may be in flight.
void WorkerCore::Fill(int64_t now_ms) {
  if (!planned_) return;
  while (!stopping_ && !queue_.empty() && flights_.size() < config_->train.batches_in_flight) {
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    const uint64_t step = StepOf({next.lease.epoch, next.lease.unit, next.batch.index},
                                 config_->train, train_samples_);
    const uint64_t flight = next_flight_++;
    flights_.try_emplace(flight, *config_, plan_, next.lease, std::move(next.batch), step);
    SendStage(flight, now_ms);
  }
  RequestLease(now_ms);
}

void WorkerCore::SendStage(uint64_t flight, int64_t now_ms) {
  const BatchFlight& batch = flights_.at(flight);
  for (uint32_t server = 0; server < plan_.servers.size(); ++server) {
    const uint64_t sequence = Send(server, batch.RequestFor(server));
    pending_[sequence] = {flight, server, now_ms};
  }
}

void WorkerCore::OnServerReply(uint32_t server, Message message, size_t bytes, int64_t now_ms) {
  const auto found = pending_.find(message.envelope.reply_to);
  if (found == pending_.end() || found->second.server != server) return;  // late or repeated
  const uint64_t flight = found->second.flight;
  pending_.erase(found);
  if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    return FailFlight(flight, fmt::format("{}: {}", plan_.servers[server].name, error->text));
  }
  BatchFlight& batch = flights_.at(flight);
  batch.CountReceived(bytes);
  const Result<bool> advanced = batch.Take(server, std::move(message.body));
  if (!advanced.ok()) return FailFlight(flight, advanced.error().message);
  if (!*advanced) return;
  if (batch.done()) {
    Send(kScheduler, batch.report());
    flights_.erase(flight);
    Fill(now_ms);
  } else {
    SendStage(flight, now_ms);
  }
}

// Gives a batch up; its lease will expire and somebody trains it again.
void WorkerCore::FailFlight(uint64_t flight, const std::string& why) {
  effects_.notices.push_back("a batch is given up: " + why);
  std::erase_if(pending_, [&](const auto& entry) { return entry.second.flight == flight; });
  flights_.erase(flight);
}

void WorkerCore::OnError(const ErrorReply& error, int64_t now_ms) {
  effects_.notices.push_back("the scheduler refused: " + error.text);
  if (error.code == ErrorCode::kWrongRun) {
    // A new scheduler life does not know us: join again.
    run_ = {};
    config_.reset();
    planned_ = false;
    flights_.clear();
    pending_.clear();
    queue_.clear();
    lease_asked_ms_.reset();
    join_sent_ms_ = now_ms - kJoinRetryMs + 200;
  } else if (error.code == ErrorCode::kIncompatible) {
    effects_.exit = Failed(error.text);
  } else if (config_ == nullptr) {
    effects_.exit = TryLater(error.text);
  }
}

WorkerCore::Effects WorkerCore::Tick(const Heartbeat& usage, int64_t now_ms) {
  const int64_t patience_ms = config_ == nullptr ? kJoinPatienceMs : kSchedulerSilenceMs;
  if (now_ms - heard_ms_ > patience_ms) {
    effects_.exit =
        TryLater(fmt::format("nothing heard from the scheduler for {} s", patience_ms / 1000));
    return Take();
  }
  if (stopping_ && flights_.empty()) {
    effects_.exit = Status();
    return Take();
  }
  // Until it has a plan it asks again: an answer, or the plan, may have been lost.
  if (!planned_ && now_ms - join_sent_ms_ >= kJoinRetryMs) {
    Effects join = Start(now_ms);
    effects_ = std::move(join);
  }
  if (config_ == nullptr) return Take();
  const ClusterConfig& cluster = config_->cluster;
  if (now_ms - heartbeat_ms_ >= cluster.heartbeat_ms) {
    Heartbeat beat = usage;
    beat.batches_in_flight = static_cast<uint32_t>(flights_.size());
    Send(kScheduler, beat);
    heartbeat_ms_ = now_ms;
  }
  for (auto& [sequence, pending] : pending_) {
    if (now_ms - pending.sent_ms < cluster.request_timeout_ms) continue;
    // The same sequence again: the server answers from its store if it did the work already.
    pending.sent_ms = now_ms;
    effects_.send.push_back({pending.server,
                             {{run_, incarnation_, sequence, 0, plan_.version},
                              flights_.at(pending.flight).RequestFor(pending.server)}});
  }
  if (lease_asked_ms_ && now_ms - *lease_asked_ms_ >= cluster.request_timeout_ms) {
    lease_asked_ms_.reset();
  }
  Fill(now_ms);
  return Take();
}

WorkerCore::Effects WorkerCore::Goodbye(const Heartbeat& usage) {
  if (config_ == nullptr) return Take();
  Send(kScheduler, usage);
  Send(kScheduler, Leave{});
  return Take();
}

void WorkerCore::NoteSent(uint64_t sequence, size_t bytes) {
  const auto found = pending_.find(sequence);
  if (found != pending_.end()) flights_.at(found->second.flight).CountSent(bytes);
}

}  // namespace dslide
