#include "server/server_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "server/gather.h"

namespace dslide {
namespace {

constexpr int64_t kJoinRetryMs = 2000;
constexpr int64_t kOccupancyMs = 5000;

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

ServerCore::Effects ServerCore::Take() { return std::exchange(effects_, Effects()); }

Message ServerCore::Envelop(Body body, uint64_t reply_to) {
  return {{run_, identity_.incarnation, next_sequence_++, reply_to, plan_ ? plan_->version : 0},
          std::move(body)};
}

ServerCore::Effects ServerCore::Start(int64_t now_ms) {
  Join join;
  join.role = Role::kServer;
  join.name = identity_.name;
  join.address = identity_.address;
  join.cores = identity_.cores;
  join.memory_bytes = identity_.memory_bytes;
  effects_.to_scheduler.push_back(Envelop(std::move(join)));
  join_sent_ms_ = now_ms;
  if (heard_ms_ == 0) heard_ms_ = now_ms;  // patience begins
  return Take();
}

ServerCore::Effects ServerCore::HandleScheduler(Message message, int64_t now_ms) {
  heard_ms_ = now_ms;
  if (const auto* reply = std::get_if<JoinReply>(&message.body)) {
    OnJoinReply(message, *reply);
  } else if (const auto* plan = std::get_if<Plan>(&message.body)) {
    OnPlan(*plan);
  } else if (const auto* checkpoint = std::get_if<CheckpointRequest>(&message.body)) {
    OnCheckpoint(*checkpoint);
  } else if (const auto* drop = std::get_if<DropBatches>(&message.body)) {
    replies_.Forget(drop->incarnation);
    Open open{
        Open::Kind::kRequest, "", drop->incarnation, 0, std::make_shared<const Body>(*drop), {}, 0};
    const auto request = open.request;
    if (loaded_) effects_.work.push_back({OpenTicket(std::move(open)), drop->incarnation, request});
  } else if (const auto* shutdown = std::get_if<Shutdown>(&message.body)) {
    effects_.notices.push_back(fmt::format("the scheduler ends the run: {}", shutdown->reason));
    effects_.exit = Status();
  } else if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
    OnSchedulerError(*error);
  }

  return Take();
}

void ServerCore::OnJoinReply(const Message& message, const JoinReply& reply) {
  if (config_) return;
  Result<Config> config = ParseConfig(reply.config, "configuration from the scheduler");
  if (!config.ok()) {
    effects_.exit = config.error();
    return;
  }
  run_ = message.envelope.run;
  config_ = std::move(*config);
  identity_.name = reply.name;
  train_samples_ = reply.train_samples;
  restore_ = reply.restore;
  effects_.notices.push_back(fmt::format("joined as {}", identity_.name));
}

void ServerCore::OnPlan(const Plan& plan) {
  if (!config_) return;
  if (plan_) {  // sent again; moving slots between servers is not supported yet
    if (loaded_) effects_.to_scheduler.push_back(Envelop(ready_));
    return;
  }
  const auto self = std::find_if(plan.servers.begin(), plan.servers.end(),
                                 [&](const auto& s) { return s.name == identity_.name; });
  if (self == plan.servers.end() || plan.slot_owner.size() != config_->cluster.slots) {
    effects_.exit = Failed("the slot plan does not fit this server");
    return;
  }
  plan_ = plan;
  index_ = static_cast<uint32_t>(self - plan.servers.begin());
  const std::vector<SlotId> slots = SlotsOf(plan, {index_});
  executors_ = config_->cluster.executors > 0 ? config_->cluster.executors : identity_.cores;
  executors_ = std::max(1u, std::min<uint32_t>(executors_, static_cast<uint32_t>(slots.size())));
  Load load;
  load.config = *config_;
  load.train_samples = train_samples_;
  load.restore = restore_;
  load.slots.resize(executors_);
  for (size_t i = 0; i < slots.size(); ++i)
    load.slots[i * executors_ / slots.size()].push_back(slots[i]);
  // Leaves room between servers, so that no two executors draw the same negatives.
  load.first_executor = index_ * 4096;
  load.ticket = OpenTicket({Open::Kind::kLoad, "", {}, 0, nullptr, {}, 0});
  effects_.load = std::move(load);
}

void ServerCore::OnCheckpoint(const CheckpointRequest& request) {
  if (!loaded_ || request.name == saving_) return;
  if (request.name == saved_.name) {  // the answer was lost
    effects_.to_scheduler.push_back(Envelop(saved_));
    return;
  }
  saving_ = request.name;
  Open open{Open::Kind::kSave, "", {}, 0, std::make_shared<const Body>(request), {}, 0};
  effects_.save = Save{request.name, request.directory, fmt::format("shard-{}", index_),
                       OpenTicket(std::move(open))};
}

void ServerCore::OnSchedulerError(const ErrorReply& error) {
  if (error.code == ErrorCode::kWrongRun) {
    effects_.exit =
        TryLater(fmt::format("the scheduler does not know this server: {}", error.text));
  } else if (!config_) {
    effects_.exit =
        error.code == ErrorCode::kIncompatible ? Failed(error.text) : TryLater(error.text);
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

ServerCore::Effects ServerCore::HandleWorker(const PeerId& peer, Message message) {
  const Envelope& envelope = message.envelope;
  const auto refuse = [&](ErrorCode code, std::string text) {
    ReplyTo(peer, envelope.sequence, ErrorReply{code, std::move(text)}, {});
    return Take();
  };
  if (envelope.run != run_ || !loaded_) return refuse(ErrorCode::kWrongRun, "not in that run");
  if (envelope.plan_version != plan_->version) {
    effects_.to_workers.emplace_back(peer, Encode(Envelop(*plan_), wire()));
    return refuse(ErrorCode::kStalePlan, fmt::format("the slot plan is {}", plan_->version));
  }
  if (std::holds_alternative<DropBatches>(message.body)) {
    return refuse(ErrorCode::kRefused, "only the scheduler drops batches");
  }
  switch (replies_.Begin(envelope.incarnation, envelope.sequence)) {
    case ReplyCache::Seen::kInProgress:
      return Take();
    case ReplyCache::Seen::kAnswered:
      effects_.to_workers.emplace_back(peer,
                                       replies_.Reply(envelope.incarnation, envelope.sequence));
      return Take();
    case ReplyCache::Seen::kForgotten:
      return refuse(ErrorCode::kRefused, "that request was answered long ago");
    case ReplyCache::Seen::kNew:
      break;
  }
  Open open{Open::Kind::kRequest,
            peer,
            envelope.incarnation,
            envelope.sequence,
            std::make_shared<const Body>(std::move(message.body)),
            {},
            0};
  const auto request = open.request;
  effects_.work.push_back({OpenTicket(std::move(open)), envelope.incarnation, request});
  return Take();
}

ServerCore::Effects ServerCore::HandleMalformed(const PeerId& peer, const Error& error) {
  malformed_++;
  effects_.notices.push_back(
      fmt::format("malformed message number {}: {}", malformed_, error.message));
  ReplyTo(peer, 0, ErrorReply{ErrorCode::kMalformed, error.message}, {});
  return Take();
}

ServerCore::Effects ServerCore::Reject(uint64_t ticket) {
  const auto found = open_.find(ticket);
  DSLIDE_CHECK(found != open_.end());
  const Open open = std::move(found->second);
  open_.erase(found);
  if (open.kind == Open::Kind::kSave) saving_.clear();  // the scheduler asks again
  if (!open.peer.empty()) {
    ReplyTo(open.peer, open.sequence, ErrorReply{ErrorCode::kRefused, "the server is overloaded"},
            open.sender);
  }
  return Take();
}

ServerCore::Effects ServerCore::HandleOutcome(ExecutorPool::Outcome outcome) {
  const auto found = open_.find(outcome.ticket);
  if (found == open_.end()) return Take();
  Open& open = found->second;
  DSLIDE_CHECK(!open.parts[outcome.executor]);
  open.parts[outcome.executor] = std::move(outcome.part);
  if (--open.missing > 0) return Take();
  Open complete = std::move(open);
  open_.erase(found);
  Complete(std::move(complete));
  return Take();
}

void ServerCore::Complete(Open open) {
  std::vector<Body> parts;
  for (auto& part : open.parts) parts.push_back(std::move(*part));
  if (open.kind == Open::Kind::kRequest) {
    Body reply = GatherReplies(*open.request, std::move(parts));
    if (!IsFinite(reply)) {
      const ErrorReply diverged{ErrorCode::kRefused,
                                "training diverged: numbers are no longer finite; lower "
                                "train.learning_rate and go on from an earlier checkpoint"};
      effects_.to_scheduler.push_back(Envelop(diverged));
      effects_.exit = Failed(diverged.text);
      return;
    }
    if (!open.peer.empty()) ReplyTo(open.peer, open.sequence, std::move(reply), open.sender);
    return;
  }
  if (open.kind == Open::Kind::kOccupancy) return NoteOccupancy(parts);
  // Load and save: Ready or CheckpointDone from the first executor, or the first error of any.
  Body first = parts[0];
  for (const Body& part : parts) {
    if (std::holds_alternative<ErrorReply>(part)) {
      first = part;
      break;
    }
  }
  const auto* error = std::get_if<ErrorReply>(&first);
  if (open.kind == Open::Kind::kLoad) {
    if (error != nullptr) {
      effects_.to_scheduler.push_back(Envelop(*error));
      effects_.exit = Failed(error->text);
      return;
    }
    loaded_ = true;
    ready_ = Ready{plan_->version, 0, 0};
    for (const Body& part : parts) {
      ready_.rows += std::get<Ready>(part).rows;
      ready_.memory_bytes += std::get<Ready>(part).memory_bytes;
    }
    effects_.to_scheduler.push_back(Envelop(ready_));
    return;
  }
  // The executor that finished last closed the database and has the totals.
  CheckpointDone done;
  for (const Body& part : parts) {
    if (const auto* own = std::get_if<CheckpointDone>(&part); own != nullptr && own->rows > 0)
      done = *own;
  }
  done.name = std::get<CheckpointRequest>(*open.request).name;
  done.shard = fmt::format("shard-{}", index_);
  if (error != nullptr) done.error = error->text;
  saving_.clear();
  saved_ = done;
  effects_.to_scheduler.push_back(Envelop(std::move(done)));
}

// Over executors: the means' mean, the largest of the rest.
void ServerCore::NoteOccupancy(const std::vector<Body>& parts) {
  occupancy_ = Heartbeat();
  for (const Body& part : parts) {
    const auto* beat = std::get_if<Heartbeat>(&part);
    if (beat == nullptr) continue;
    const auto share = 1.0f / static_cast<float>(parts.size());
    occupancy_.bucket_mean += share * beat->bucket_mean;
    occupancy_.bucket_empty_share += share * beat->bucket_empty_share;
    occupancy_.bucket_p99 = std::max(occupancy_.bucket_p99, beat->bucket_p99);
    occupancy_.bucket_largest = std::max(occupancy_.bucket_largest, beat->bucket_largest);
    occupancy_.rehash_lag_batches =
        std::max(occupancy_.rehash_lag_batches, beat->rehash_lag_batches);
    occupancy_.batches_in_flight = std::max(occupancy_.batches_in_flight, beat->batches_in_flight);
  }
}

void ServerCore::ReplyTo(const PeerId& peer, uint64_t sequence, Body body,
                         Incarnation remember_for) {
  auto bytes = std::make_shared<const Bytes>(Encode(Envelop(std::move(body), sequence), wire()));
  if (remember_for.value != 0) replies_.Finish(remember_for, sequence, bytes);
  effects_.to_workers.emplace_back(peer, *bytes);
}

ServerCore::Effects ServerCore::Tick(const Heartbeat& usage, int64_t now_ms) {
  const int64_t patience_ms = config_ ? kSchedulerSilenceMs : kJoinPatienceMs;
  if (now_ms - heard_ms_ > patience_ms) {
    effects_.exit =
        TryLater(fmt::format("nothing heard from the scheduler for {} s", patience_ms / 1000));
    return Take();
  }
  if (!config_) {
    if (now_ms - join_sent_ms_ >= kJoinRetryMs) return Start(now_ms);
    return Take();
  }
  if (loaded_ && now_ms - occupancy_ms_ >= kOccupancyMs) {
    occupancy_ms_ = now_ms;
    effects_.occupancy = OpenTicket({Open::Kind::kOccupancy, "", {}, 0, nullptr, {}, 0});
  }
  if (now_ms - heartbeat_ms_ < config_->cluster.heartbeat_ms) return Take();
  heartbeat_ms_ = now_ms;
  SendHeartbeat(usage);
  return Take();
}

void ServerCore::SendHeartbeat(const Heartbeat& usage) {
  Heartbeat beat = occupancy_;
  beat.cpu_seconds = usage.cpu_seconds;
  beat.peak_rss_bytes = usage.peak_rss_bytes;
  beat.bytes_sent = usage.bytes_sent;
  beat.bytes_received = usage.bytes_received;
  beat.malformed = malformed_;
  effects_.to_scheduler.push_back(Envelop(beat));
}

ServerCore::Effects ServerCore::Goodbye(const Heartbeat& usage) {
  if (!config_) return Take();
  SendHeartbeat(usage);
  effects_.to_scheduler.push_back(Envelop(Leave{}));
  return Take();
}

}  // namespace dslide
