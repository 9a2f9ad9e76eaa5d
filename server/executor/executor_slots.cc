// The slots of an executor that come and go.
#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/base/failpoint.h"
#include "server/executor/executor.h"

namespace dslide {
namespace {

ErrorReply Refuse(std::string text) { return {ErrorCode::kRefused, std::move(text)}; }

}  // namespace

Body Executor::Do(const SlotJob& job, uint32_t self) {
  const SlotLoad::Busy busy(&load_);
  Body reply = DoSlotJob(job, self);
  CheckInvariants();
  return reply;
}

Body Executor::DoSlotJob(const SlotJob& job, uint32_t self) {
  if (purpose_ == Purpose::kInference) return Refuse("this executor does not train");
  switch (job.kind) {
    case SlotJob::Kind::kReserve:
      if (job.executor == self) return Reserve(job.slots);
      return Discard(job.slots);  // a place that was meant for it earlier
    case SlotJob::Kind::kPut:
      return Put(*job.rows);
    case SlotJob::Kind::kDiscard:
      return Discard(job.slots);
    case SlotJob::Kind::kSwitchPlan:
      return SwitchPlan(job.slots);
    case SlotJob::Kind::kAttach:
      return Attach(job.slots);
    case SlotJob::Kind::kRelease:
      return Release(job.slots);
    case SlotJob::Kind::kForgetCopy:
      for (const SlotId slot : job.slots) source_.ForgetAttached(slot);
      return Ack{};
  }
  DSLIDE_CHECK(false);
  return Ack{};
}

Body Executor::Pull(const SlotPull& pull) {
  const SlotId slot{pull.slot};
  if (purpose_ == Purpose::kInference) return Refuse("this executor does not train");
  if (!output_.layer().map().Owns(slot) && !source_.Departed(slot)) return Ack{};
  std::optional<SlotRows> part = source_.Pull(pull);
  if (part) return std::move(*part);
  return Refuse(fmt::format("SlotPull: part {} does not follow in the copy of slot {}", pull.part,
                            pull.slot));
}

Body Executor::Reserve(std::span<const SlotId> slots) {
  const SlotMap& map = output_.layer().map();
  for (const SlotId slot : slots) {
    if (slot.value >= map.slots() || map.Owns(slot)) {
      return Refuse(fmt::format("slot {} cannot be reserved: {}", slot.value,
                                map.Owns(slot) ? "it is here" : "there is none"));
    }
  }
  Release(slots);
  Discard(slots);
  try {
    for (const SlotId slot : slots) {
      if (!incoming_.try_emplace(slot, slot, &input_, &output_).second) continue;  // named twice
      input_.layer().Reserve(slot);
      output_.layer().Reserve(slot);
    }
    FollowMap();
  } catch (const std::bad_alloc&) {
    Discard(slots);
    return Refuse(fmt::format("there is no memory for {} slots", slots.size()));
  }
  return Ack{};
}

Body Executor::Put(const SlotRows& rows) {
  const auto incoming = incoming_.find(SlotId{rows.slot});
  if (incoming == incoming_.end()) return Ack{};
  if (const Status put = incoming->second.Put(rows); !put.ok()) return Refuse(put.error().message);
  PassFailpoint(Failpoint::kServerMovePut);
  return Ack{};
}

Body Executor::Discard(std::span<const SlotId> slots) {
  bool any = false;
  for (const SlotId slot : slots) {
    if (incoming_.erase(slot) == 0) continue;
    ReleaseRegion(slot);
    any = true;
  }
  if (any) FollowMap();
  return Ack{};
}

Body Executor::SwitchPlan(std::span<const SlotId> slots) {
  PassFailpoint(Failpoint::kServerBeforePlanSwitch);
  DropWork();
  bool any = false;
  for (const SlotId slot : slots) {
    if (!output_.layer().map().Owns(slot)) continue;
    input_.layer().Detach(slot);
    output_.layer().Detach(slot);
    source_.Depart(slot, {applied_.Remove(slot), committed_});
    any = true;
  }
  source_.ForgetAttached();
  FollowMap();
  if (any) PassFailpoint(Failpoint::kServerPlanSwitched);
  return Ack{};
}

Body Executor::Attach(std::span<const SlotId> slots) {
  std::vector<SlotId> arrived;
  std::optional<uint64_t> committed = committed_;
  for (const auto& [slot, incoming] : incoming_) {
    if (std::ranges::find(slots, slot) == slots.end()) continue;
    if (std::string why = incoming.WhyNotComplete(); !why.empty()) return Refuse(std::move(why));
    arrived.push_back(slot);
    if (!synchronous()) continue;
    const std::optional<uint64_t>& theirs = incoming.history().committed;
    if (committed && theirs != committed) {
      return Refuse(fmt::format("slot {} is at step {}, this executor at step {}", slot.value,
                                theirs ? std::to_string(*theirs) : "none", *committed));
    }
    committed = theirs;
  }
  if (arrived.empty()) return Ack{};
  PassFailpoint(Failpoint::kServerBeforeAttach);
  DropWork();
  committed_ = committed;
  MoveSlots attached;
  for (const SlotId slot : arrived) {
    attached.slots.push_back(slot.value);
    input_.layer().Attach(slot);
    output_.layer().Attach(slot);
    applied_.AddGroup({{slot}, incoming_.at(slot).history().batches});
    incoming_.erase(slot);
  }
  FollowMap();
  PassFailpoint(Failpoint::kServerAfterAttach);
  return attached;
}

Body Executor::Release(std::span<const SlotId> slots) {
  bool any = false;
  for (const SlotId slot : slots) {
    if (!source_.Departed(slot)) continue;
    source_.Forget(slot);
    ReleaseRegion(slot);
    any = true;
  }
  if (any) FollowMap();
  return Ack{};
}

void Executor::ReleaseRegion(SlotId slot) {
  for (Layer* layer : {&input_.layer(), &output_.layer()}) {
    if (layer->map().HasRegion(slot)) layer->Release(slot);
  }
}

// What began with other slots here cannot go on: batches, which their workers begin again, steps
// and a snapshot.
void Executor::DropWork() {
  if (snapshot_in_progress()) AbortSnapshot();
  batches_.clear();
  held_.clear();
  spare_steps_.clear();  // they are of the rows that there were
}

void Executor::FollowMap() {
  input_.FollowMap();
  output_.FollowMap();
}

}  // namespace dslide
