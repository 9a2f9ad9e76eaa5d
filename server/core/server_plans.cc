// Joining, and the plans that a server is given: the part of ServerCore that says which slots are
// here.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/random.h"
#include "common/run/slot_plan.h"
#include "server/core/server_core.h"
#include "server/storage/shard_directory.h"

namespace dslide {

ServerCore::Effects ServerCore::Start(int64_t now_ms) {
  SendJoin(now_ms);
  if (heard_ms_ == 0) heard_ms_ = now_ms;  // patience begins
  return Drain();
}

// Also to a new life of the scheduler: it is told which plan's slots are loaded here.
void ServerCore::SendJoin(int64_t now_ms) {
  Join join;
  join.role = Role::kServer;
  join.name = JoinName();
  join.address = identity_.address;
  join.cores = identity_.cores;
  join.memory_bytes = identity_.memory_bytes;
  // While slots are still on their way here, the plan before.
  join.plan_version = !loaded_ ? 0 : switch_ ? switch_->from_version : plan_->version;
  effects_.to_scheduler.push_back(Envelop(std::move(join)));
  join_sent_ms_ = now_ms;
}

void ServerCore::BeginNewLife(int64_t now_ms) {
  if (stop_requested_ || without_slots_) {
    effects_.exit =
        without_slots_ ? Status() : TryLater("stopped by a signal, without a checkpoint");
    return;
  }
  effects_.notices.push_back("its slots have gone to others; joining again with nothing loaded");
  DropGeneration();
  plan_.reset();
  checkpoints_.clear();
  effects_.unload = true;
  run_ = {};
  config_.reset();
  identity_.incarnation = {Mix64(identity_.incarnation.value)};
  life_sequence_ = next_sequence_;
  SendJoin(now_ms);
}

// Forgets all that belongs to the present plan.
void ServerCore::DropGeneration() {
  effects_.work.clear();  // submitted in the same call
  open_.clear();
  waiting_.clear();
  replies_ = ReplyCache();
  fenced_.clear();
  saving_.reset();
  orphaned_ = false;
  saves_orphan_ = false;
  saved_ = CheckpointDone();
  committed_.reset();
  loaded_ = false;
  load_error_.reset();
  switch_.reset();
  next_plan_.reset();
  early_.clear();
  fetcher_.Clear();
  move_ = 0;
  move_ready_ = false;
  pulls_.clear();
  release_.clear();
  leaving_slots_.clear();
  without_slots_ = false;
  measuring_.reset();
  slot_work_.clear();
  measured_ = Heartbeat();
}

void ServerCore::OnJoinReply(const Message& message, const JoinReply& reply) {
  Result<Config> config = ParseConfig(reply.config, "configuration from the scheduler");
  if (!config.ok()) {
    effects_.exit = config.error();
    return;
  }
  const bool goes_on = config_ && message.envelope.run == run_ && *config_ == *config;
  if (goes_on && reply.name == given_name_) return;
  given_name_ = effects_.name = reply.name;
  effects_.notices.push_back(fmt::format("joined as {}", reply.name));
  if (!identity_.name.empty() && reply.name.starts_with(identity_.name + "-")) {
    effects_.warnings.push_back(
        fmt::format("the name {} was taken; this server is {}", identity_.name, reply.name));
  }
  if (goes_on) return;
  if (config_) {  // another run, or one that goes on otherwise: nothing here is of use to it
    DropGeneration();
    plan_.reset();
    checkpoints_.clear();
    effects_.unload = true;
  }
  run_ = message.envelope.run;
  config_ = std::move(*config);
  train_samples_ = reply.train_samples;
}

void ServerCore::OnPlan(const Plan& plan, int64_t now_ms) {
  if (!config_) return;
  const auto has_server = [&](uint16_t owner) { return owner < plan.servers.size(); };
  if (plan.slot_owner.size() != config_->cluster.slots ||
      !std::ranges::all_of(plan.slot_owner, has_server)) {
    effects_.warnings.push_back(
        fmt::format("slot plan {} is refused: it does not fit the run", plan.version));
    return;
  }
  if (plan_ && plan.version <= plan_->version) {
    if (plan.version < plan_->version) return;
    // The answer was lost.
    if (loaded_ && !switch_ && !without_slots_) effects_.to_scheduler.push_back(Envelop(ready_));
    if (load_error_) effects_.to_scheduler.push_back(Envelop(*load_error_));
    return;
  }
  const auto self = std::find_if(plan.servers.begin(), plan.servers.end(), [&](const auto& s) {
    return s.incarnation == identity_.incarnation;
  });
  std::optional<uint32_t> index;
  if (self != plan.servers.end()) index = static_cast<uint32_t>(self - plan.servers.begin());
  if (loaded_ && GenerationOf(plan) == GenerationOf(*plan_))
    return BeginPlanSwitch(plan, index, now_ms);
  if (without_slots_) {
    effects_.exit = Status();  // nobody needs what it has left
  } else if (index) {
    LoadPlan(plan, *index, now_ms);
  }  // else a spare
}

// Fills the slots from the checkpoint that the plan names. A server that comes to a generation
// later has none at first.
void ServerCore::LoadPlan(const Plan& plan, uint32_t index, int64_t now_ms) {
  const std::vector<SlotId> slots = SlotsOf(plan, {index});
  const bool late = plan.version != GenerationOf(plan);
  if (late && !slots.empty()) return BeginNewLife(now_ms);  // what it had is lost
  DropGeneration();
  plan_ = plan;
  if (!plan.restore.empty()) checkpoints_ = ParentOf(plan.restore);
  index_ = index;
  executors_ = config_->cluster.executors > 0 ? config_->cluster.executors : identity_.cores;
  executors_ = std::clamp<uint32_t>(executors_, 1, config_->cluster.slots);
  Load load;
  load.server = fmt::format("{}-{:016x}", JoinName(), identity_.incarnation.value);
  load.config = *config_;
  load.train_samples = train_samples_;
  load.restore = late ? "" : plan.restore;
  load.slots.resize(executors_);
  executor_of_.assign(config_->cluster.slots, 0);
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t executor = i * executors_ / slots.size();
    load.slots[executor].push_back(slots[i]);
    executor_of_[slots[i].value] = static_cast<uint32_t>(executor);
  }
  // Leaves room between servers, so that no two executors draw the same negatives.
  load.first_executor = (index_ + 257 * (plan.version - GenerationOf(plan))) * 4096;
  load.ticket = OpenTicket(Open(Open::Kind::kLoad));
  effects_.load = std::move(load);
}

}  // namespace dslide
