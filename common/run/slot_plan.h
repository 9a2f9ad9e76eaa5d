// Slot plans: which server owns which slots.
#pragma once

#include "common/wire/messages.h"

namespace dslide {

// Contiguous ranges of slots of nearly equal size, one per server, in the servers' order.
// REQUIRES servers not empty, at most 65535.
Plan EqualPlan(uint32_t version, uint32_t slots, std::vector<PlanServer> servers);

// The slots of server `index`, ascending.
std::vector<SlotId> SlotsOf(const Plan& plan, ServerIndex index);

bool HasServer(const Plan& plan, Incarnation server);

// The first version of the plan's generation.
inline uint32_t GenerationOf(const Plan& plan) {
  return plan.generation == 0 ? plan.version : plan.generation;
}

}  // namespace dslide
