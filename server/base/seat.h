// A server's place in the plan in force. All parts of its core read it; only the core changes it.
//
// Invariants: the plan has one owner for each slot of the run; with an index, that server of the
// plan is this one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/config/config.h"
#include "common/run/lease_proofs.h"
#include "common/run/slot_plan.h"

namespace dslide {

struct ServerSeat {
  Config config;
  uint64_t train_samples = 0;
  Incarnation self;
  uint32_t executors = 1;
  Plan plan;
  std::optional<uint32_t> index;  // of this server in the plan; none: it has no slots any more
  std::optional<ServerKeys> keys = {};  // none: not known in this life of the scheduler

  // Ascending.
  std::vector<SlotId> OwnSlots() const {
    return index ? SlotsOf(plan, {*index}) : std::vector<SlotId>();
  }
  // Of both layers, in these slots.
  uint64_t OwnRows() const;
  // Whether a plan carries the state of this one on.
  bool IsSameGeneration(const Plan& other) const {
    return GenerationOf(other) == GenerationOf(plan);
  }

  void CheckInvariants() const;
};

}  // namespace dslide
