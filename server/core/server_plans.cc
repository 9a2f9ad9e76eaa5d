// Joining, and the plans that a server is given.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/checkpoint/layout.h"
#include "common/log/events.h"
#include "common/run/slot_plan.h"
#include "server/base/events.h"
#include "server/core/server_core.h"
#include "server/gate/request_bytes.h"

namespace dslide {
namespace {

// Of all executors: of a server that has little memory for rows.
constexpr uint64_t kLeastBatchBytes = uint64_t{256} << 20;
constexpr uint64_t kBatchesBeside = 16;  // of one worker, whatever the memory

}  // namespace

ServerCore::Actions ServerCore::Start(int64_t now_ms) {
  SendJoin(now_ms);
  return Drain();
}

// Also to a new life of the scheduler, which learns from it which plan's slots are loaded here.
void ServerCore::SendJoin(int64_t now_ms) {
  Join join;
  join.role = Role::kServer;
  join.name = JoinName();
  join.address = identity_.address;
  join.cores = identity_.cores;
  join.memory_bytes = identity_.memory_bytes;
  join.disk_bytes = identity_.disk.bytes;
  if (loaded()) {
    const SlotMigration& slots = generation_->slots;
    join.plan_version = slots.switching() ? slots.switching_from() : plan_version();
  }
  out_.ToScheduler(std::move(join));
  out_.link().JoinSent(now_ms);
}

void ServerCore::BeginNewLife(int64_t now_ms) {
  if (without_slots()) return out_.Exit(Status());
  if (stop_.requested()) {
    return out_.Exit(TryLater("stopped by a signal, without a checkpoint"));
  }
  out_.Notice({event::kServerRejoins,
               "this server's slots have gone to others; joining again with nothing loaded"});
  DropGeneration();
  out_.Unload();
  config_.reset();
  out_.link().BeginNewLife();
  SendJoin(now_ms);
}

void ServerCore::DropGeneration() {
  generation_.reset();
  load_.Forget();
  out_.ForgetJobs();
  out_.set_plan_version(0);
}

void ServerCore::OnJoinReply(const Message& message, const JoinReply& reply) {
  Result<Config> config = ParseSchedulersConfig(reply.config);
  if (!config.ok()) return out_.Exit(config.error());
  if (const auto keys = ServerKeys::In(reply)) SetKeys(keys);
  const bool goes_on = config_ && message.envelope.run == out_.link().run() && *config_ == *config;
  if (goes_on && reply.name == given_name_) return;
  given_name_ = reply.name;
  out_.Rename(reply.name);
  out_.Notice({event::kJoined, fmt::format("joined as {}", reply.name), {{"name", reply.name}}});
  if (!identity_.name.empty() && reply.name.starts_with(identity_.name + "-")) {
    out_.Warn({event::kServerRenamed,
               fmt::format("the name {} was taken; this server is {}", identity_.name, reply.name),
               {{"name", reply.name}}});
  }
  if (goes_on) return;
  if (config_) {  // another run, or one that goes on otherwise: nothing here is of use to it
    DropGeneration();
    out_.Unload();
  }
  out_.link().Joined(message.envelope.run);
  config_ = std::move(*config);
  train_samples_ = reply.train_samples;
}

void ServerCore::SetKeys(std::optional<ServerKeys> keys) {
  keys_ = keys;
  if (generation_) generation_->seat.keys = keys;
}

void ServerCore::OnPlan(const Plan& plan, int64_t now_ms) {
  if (!config_) return;
  const auto has_server = [&](uint16_t owner) { return owner < plan.servers.size(); };
  if (plan.slot_owner.size() != config_->cluster.slots || GenerationOf(plan) > plan.version ||
      !std::ranges::all_of(plan.slot_owner, has_server)) {
    return out_.Warn({event::kSlotMapRefused,
                      fmt::format("slot plan {} is refused: it does not fit the run", plan.version),
                      {{"map", plan.version}}});
  }
  const Result<Config> config = ConfigUnder(plan, *config_);
  if (!config.ok()) {
    return out_.Warn(
        {event::kSlotMapRefused,
         fmt::format("slot plan {} is refused: {}", plan.version, config.error().message),
         {{"map", plan.version}}});
  }
  if (generation_ && plan.version < plan_version()) return;
  if (generation_ && plan.version == plan_version()) {  // the answer was lost
    if (generation_->settled()) out_.ToScheduler(generation_->ready);
    if (generation_->load_error) out_.ToScheduler(*generation_->load_error);
    return;
  }
  const std::optional<uint32_t> index = IndexOf(plan, incarnation());
  if (loaded() && generation_->seat.IsSameGeneration(plan)) {
    generation_->BeginPlanSwitch(plan, *config, index, load_.slot_work(), now_ms, &out_);
  } else if (without_slots()) {
    out_.Exit(Status());  // no server needs the slots that left
  } else if (index) {
    LoadPlan(plan, *config, *index, now_ms);
  }  // else this server is a spare
}

// Fills the slots from the checkpoint that the plan names. A server that comes to a generation
// later has no slots at first.
void ServerCore::LoadPlan(const Plan& plan, const Config& config, uint32_t index, int64_t now_ms) {
  const bool late = plan.version != GenerationOf(plan);
  // A plan that carries slots on that were here once: they are lost.
  if (late && !SlotsOf(plan, {index}).empty()) return BeginNewLife(now_ms);
  std::string checkpoints = !plan.restore.empty() ? ParentOf(plan.restore)
                            : generation_         ? generation_->saver.checkpoints()
                                                  : "";
  DropGeneration();
  uint32_t executors = config.cluster.executors;
  if (executors == 0) executors = identity_.cores;
  executors = std::clamp<uint32_t>(executors, 1, config.cluster.slots);
  generation_.emplace(
      ServerSeat{config, train_samples_, incarnation(), executors, plan, index, keys_},
      std::move(checkpoints), RequestLimits::For(identity_.memory_bytes, config));
  out_.set_plan_version(plan.version);
  ServerLoad load;
  load.server = fmt::format("{}-{:016x}", JoinName(), incarnation().value);
  load.config = config;
  load.train_samples = train_samples_;
  load.restore = late ? "" : plan.restore;
  load.slots = generation_->slots.Place(generation_->seat);
  load.batch_bytes =
      std::max(std::max(kLeastBatchBytes, identity_.memory_bytes / 4) / load.slots.size(),
               kBatchesBeside * MostBytesOfBatch(config));
  // Without fixed sizes all rows stay in memory.
  if (!identity_.disk.directory.empty() && HasFixedSizes(config.train)) {
    load.row_bytes = identity_.memory_bytes;
    load.disk = identity_.disk;
  }
  out_.Load(std::move(load));
}

void ServerCore::FollowNextPlan(int64_t now_ms) {
  if (const auto plan = std::exchange(generation_->next_plan, std::nullopt)) OnPlan(*plan, now_ms);
}

}  // namespace dslide
