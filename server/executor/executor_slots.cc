// The slots of an executor that come and go.
#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/base/failpoint.h"
#include "server/executor/executor.h"

namespace dslide {
namespace {

constexpr const char* kDoesNotTrain = "this executor does not train";

ErrorReply Refuse(std::string text) { return {ErrorCode::kRefused, std::move(text)}; }

}  // namespace

Result<Attached> Executor::Do(const SlotJob& job) {
  const SlotLoad::Busy busy(&load_);
  Result<Attached> attached = DoSlotJob(job);
  CheckInvariants();
  return attached;
}

Result<Attached> Executor::DoSlotJob(const SlotJob& job) {
  if (purpose_ == Purpose::kInference) return Failed(kDoesNotTrain);
  switch (job.kind) {
    case SlotJob::Kind::kReserve:
      if (job.executor != local_index_) {
        Discard(job.slots);  // the place was meant for this executor earlier
      } else if (const Status reserved = Reserve(job.slots); !reserved.ok()) {
        return reserved.error();
      }
      break;
    case SlotJob::Kind::kPut:
      if (const Status put = Put(*job.rows); !put.ok()) return put.error();
      break;
    case SlotJob::Kind::kDiscard:
      Discard(job.slots);
      break;
    case SlotJob::Kind::kSwitchPlan:
      SwitchPlan(job.slots);
      break;
    case SlotJob::Kind::kAttach:
      return Attach(job.slots);
    case SlotJob::Kind::kRelease:
      Release(job.slots);
      break;
    case SlotJob::Kind::kForgetCopy:
      for (const SlotId slot : job.slots) source_.ForgetAttached(slot);
      break;
  }
  return Attached{};
}

Body Executor::Pull(const SlotPull& pull) {
  const SlotId slot{pull.slot};
  if (purpose_ == Purpose::kInference) return Refuse(kDoesNotTrain);
  if (!output_.layer().map().Owns(slot) && !source_.Departed(slot)) return Ack{};
  std::optional<SlotRows> part = source_.Pull(pull);
  if (part) return std::move(*part);
  return Refuse(fmt::format("SlotPull: part {} does not follow in the copy of slot {}", pull.part,
                            pull.slot));
}

Status Executor::Reserve(std::span<const SlotId> slots) {
  const SlotMap& map = output_.layer().map();
  for (const SlotId slot : slots) {
    if (slot.value >= map.slots() || map.Owns(slot)) {
      return Failed(fmt::format("slot {} cannot be reserved: {}", slot.value,
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
    return Failed(fmt::format("there is no memory for {} slots", slots.size()));
  }
  return {};
}

Status Executor::Put(const SlotRows& rows) {
  const auto incoming = incoming_.find(SlotId{rows.slot});
  if (incoming == incoming_.end()) return {};
  DSLIDE_RETURN_IF_ERROR(incoming->second.Put(rows));
  PassFailpoint(Failpoint::kServerMovePut);
  return {};
}

void Executor::Discard(std::span<const SlotId> slots) {
  bool any = false;
  for (const SlotId slot : slots) {
    if (incoming_.erase(slot) == 0) continue;
    ReleaseRegion(slot);
    any = true;
  }
  if (any) FollowMap();
}

void Executor::SwitchPlan(std::span<const SlotId> slots) {
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
}

Result<Attached> Executor::Attach(std::span<const SlotId> slots) {
  std::vector<SlotId> arrived;
  std::optional<uint64_t> committed = committed_;
  for (const auto& [slot, incoming] : incoming_) {
    if (std::ranges::find(slots, slot) == slots.end()) continue;
    if (std::string why = incoming.WhyNotComplete(); !why.empty()) return Failed(std::move(why));
    arrived.push_back(slot);
    if (!synchronous()) continue;
    const std::optional<uint64_t>& theirs = incoming.history().committed;
    if (committed && theirs != committed) {
      return Failed(fmt::format("slot {} is at step {}, this executor at step {}", slot.value,
                                theirs ? std::to_string(*theirs) : "none", *committed));
    }
    committed = theirs;
  }
  if (arrived.empty()) return Attached{};
  PassFailpoint(Failpoint::kServerBeforeAttach);
  DropWork();
  committed_ = committed;
  for (const SlotId slot : arrived) {
    input_.layer().Attach(slot);
    output_.layer().Attach(slot);
    applied_.AddGroup({{slot}, incoming_.at(slot).history().batches});
    incoming_.erase(slot);
  }
  FollowMap();
  PassFailpoint(Failpoint::kServerAfterAttach);
  return Attached{std::move(arrived)};
}

void Executor::Release(std::span<const SlotId> slots) {
  bool any = false;
  for (const SlotId slot : slots) {
    if (!source_.Departed(slot)) continue;
    source_.Forget(slot);
    ReleaseRegion(slot);
    any = true;
  }
  if (any) FollowMap();
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
