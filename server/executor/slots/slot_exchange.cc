#include "server/executor/slots/slot_exchange.h"

#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/base/plural.h"

namespace dslide {

SlotExchange::SlotExchange(InputLayer* input, OutputLayer* output, AppliedBatches* applied)
    : input_(*input), output_(*output), applied_(*applied), sender_(input, output) {}

Body SlotExchange::Pull(const SlotPull& pull) {
  const SlotId slot{pull.slot};
  if (!output_.layer().map().Owns(slot) && !sender_.Departed(slot)) return Ack{};
  if (std::optional<SlotRows> part = sender_.Pull(pull)) return *std::move(part);
  return ErrorReply{ErrorCode::kRefused,
                    fmt::format("SlotPull: part {} does not follow in the copy of slot {}",
                                pull.part, pull.slot)};
}

Status SlotExchange::Reserve(std::span<const SlotId> slots) {
  const SlotMap& map = output_.layer().map();
  for (const SlotId slot : slots) {
    if (slot.value >= map.slots() || map.Owns(slot)) {
      return Failed(fmt::format("slot {} cannot be reserved: {}", slot.value,
                                map.Owns(slot) ? "it is here" : "there is none"));
    }
  }
  Release(slots);
  Discard(slots);
  try {  // the layers and tables grow in huge pages, which the system may refuse
    for (const SlotId slot : slots) {
      if (!incoming_.try_emplace(slot, slot, &input_, &output_).second) continue;  // named twice
      input_.layer().Reserve(slot);
      output_.layer().Reserve(slot);
    }
    FollowMap();
  } catch (const std::bad_alloc&) {
    Discard(slots);
    return Failed("there is no memory for " + Plural(slots.size(), "slot"));
  }
  return {};
}

Status SlotExchange::Put(const SlotRows& rows) {
  const auto incoming = incoming_.find(SlotId{rows.slot});
  if (incoming == incoming_.end()) return {};
  DSLIDE_RETURN_IF_ERROR(incoming->second.Put(rows));
  PassFailpoint(Failpoint::kServerMovePut);
  return {};
}

void SlotExchange::Discard(std::span<const SlotId> slots) {
  bool any = false;
  for (const SlotId slot : slots) {
    if (incoming_.erase(slot) == 0) continue;
    ReleaseRegion(slot);
    any = true;
  }
  if (any) FollowMap();
}

Result<SlotExchange::Arrival> SlotExchange::Arriving(std::span<const SlotId> slots,
                                                     bool synchronous,
                                                     std::optional<uint64_t> committed) const {
  Arrival arrival{{}, committed};
  for (const auto& [slot, incoming] : incoming_) {
    if (std::ranges::find(slots, slot) == slots.end()) continue;
    if (std::string why = incoming.WhyNotComplete(); !why.empty()) return Failed(std::move(why));
    arrival.slots.push_back(slot);
    if (!synchronous) continue;
    const std::optional<uint64_t>& theirs = incoming.history().committed;
    if (arrival.committed && theirs != arrival.committed) {
      return Failed(fmt::format("slot {} is at step {}, this executor at step {}", slot.value,
                                theirs ? std::to_string(*theirs) : "none", *arrival.committed));
    }
    arrival.committed = theirs;
  }
  return arrival;
}

void SlotExchange::Attach(const Arrival& arrival) {
  for (const SlotId slot : arrival.slots) {
    input_.layer().Attach(slot);
    output_.layer().Attach(slot);
    applied_.AddGroup({{slot}, incoming_.at(slot).history().batches});
    incoming_.erase(slot);
  }
  FollowMap();
}

bool SlotExchange::Depart(std::span<const SlotId> slots, std::optional<uint64_t> committed) {
  bool any = false;
  for (const SlotId slot : slots) {
    if (!output_.layer().map().Owns(slot)) continue;
    input_.layer().Detach(slot);
    output_.layer().Detach(slot);
    sender_.Depart(slot, {applied_.Remove(slot), committed});
    any = true;
  }
  sender_.ForgetAttached();
  FollowMap();
  return any;
}

void SlotExchange::Release(std::span<const SlotId> slots) {
  bool any = false;
  for (const SlotId slot : slots) {
    if (!sender_.Departed(slot)) continue;
    sender_.Forget(slot);
    ReleaseRegion(slot);
    any = true;
  }
  if (any) FollowMap();
}

void SlotExchange::ForgetCopies(std::span<const SlotId> slots) {
  for (const SlotId slot : slots) sender_.ForgetAttached(slot);
}

void SlotExchange::ReleaseRegion(SlotId slot) {
  for (Layer* layer : {&input_.layer(), &output_.layer()}) {
    if (layer->map().HasRegion(slot)) layer->Release(slot);
  }
}

void SlotExchange::FollowMap() {
  input_.FollowMap();
  output_.FollowMap();
}

void SlotExchange::CheckInvariants() const {
  const SlotMap& map = output_.layer().map();
  DSLIDE_CHECK(std::ranges::equal(input_.layer().map().owned(), map.owned()));
  for (const auto& [slot, incoming] : incoming_) {
    DSLIDE_CHECK(!map.Owns(slot) && map.HasRegion(slot) && !sender_.Departed(slot));
    DSLIDE_CHECK(input_.layer().map().HasRegion(slot));
  }
}

}  // namespace dslide
