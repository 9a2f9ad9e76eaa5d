// An assignment of slots to owners: the state of the planner's search.
//
// Internal to planner.cc and relief.cc. Loads are effective loads: idle and unknown slots have a
// small load, so that they are spread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/balance/planner.h"

namespace dslide {

class Assignment {
 public:
  static constexpr uint64_t kUnbounded = uint64_t{1} << 62;  // sums of bytes can be added to it

  // `owners` must outlive it. Each slot starts at its current owner.
  Assignment(const std::vector<BalanceOwner>& owners, const std::vector<BalanceSlot>& slots);

  size_t owners() const { return owners_->size(); }
  size_t slots() const { return slots_.size(); }
  double Load(uint32_t slot) const { return slots_[slot].load; }
  uint64_t Bytes(uint32_t slot) const { return slots_[slot].bytes; }
  uint32_t OwnerOf(uint32_t slot) const { return slots_[slot].owner; }
  uint32_t OriginOf(uint32_t slot) const { return slots_[slot].origin; }
  double OwnerLoad(uint32_t owner) const { return loads_[owner]; }
  uint32_t Count(uint32_t owner) const { return counts_[owner]; }
  bool Stays(uint32_t owner) const { return !(*owners_)[owner].leaving; }
  double Capacity(uint32_t owner) const { return (*owners_)[owner].capacity; }
  // The slot has no owner, or its owner is leaving.
  bool MustMove(uint32_t slot) const;
  // The slot is with the owner that it had at the last Rebase(), which stays.
  bool AtHome(uint32_t slot) const { return slots_[slot].owner == slots_[slot].home; }
  uint32_t HomeOf(uint32_t slot) const { return slots_[slot].home; }

  // Total load over total capacity of the owners that stay.
  double Mean() const;
  // An owner's load over capacity, relative to `mean`.
  double Relative(uint32_t owner, double mean) const {
    return loads_[owner] / ((*owners_)[owner].capacity * mean);
  }
  // The largest relative load (planner.h), also of leaving owners that have slots.
  double Imbalance() const;

  // `to` has memory for the slot.
  bool Fits(uint32_t slot, uint32_t to) const {
    const Slot& s = slots_[slot];
    const uint64_t limit = (*owners_)[to].memory_bytes;
    return s.origin == to || limit == 0 || occupied_[to] + s.bytes <= limit;
  }
  // kUnbounded if the owner has no known limit.
  uint64_t FreeBytes(uint32_t owner) const;
  void Move(uint32_t slot, uint32_t to);
  // Cost of moving the slot: the additional bytes sent, and 1 for the move; negative for a move
  // back home. Slots that must move cost nothing.
  double Cost(uint32_t slot, uint32_t to) const {
    return CostAt(slots_[slot], to) - CostAt(slots_[slot], slots_[slot].owner);
  }
  // Bytes of all slots that have left their origins.
  uint64_t SentBytes() const;

  // An owner's slots as a list: first the arrived slots, then by falling Density().
  uint32_t First(uint32_t owner) const { return first_[owner]; }
  uint32_t Next(uint32_t slot) const { return slots_[slot].next; }
  // Load relieved per cost of moving the slot. If InOrder(), no later slot of the list is denser.
  double Density(uint32_t slot) const {
    return slots_[slot].load / (static_cast<double>(slots_[slot].bytes) + 1);
  }
  bool InOrder(uint32_t slot) const { return slots_[slot].in_order; }

  // Makes the current owners the slots' homes, from which costs count.
  void Rebase();

 private:
  struct Slot {
    double load;
    uint64_t bytes;
    uint32_t origin;  // before the plan
    uint32_t home;    // at the last Rebase(); kNoOwner: the slot must move
    uint32_t owner;
    uint32_t next;      // in its owner's list
    uint32_t previous;  // the same
    bool in_order;
  };
  static double CostAt(const Slot& slot, uint32_t owner) {
    return slot.home == kNoOwner || slot.home == owner ? 0.0 : static_cast<double>(slot.bytes) + 1;
  }
  void Link(uint32_t slot, uint32_t owner);
  void Unlink(uint32_t slot);

  const std::vector<BalanceOwner>* owners_;
  std::vector<Slot> slots_;
  std::vector<double> loads_;       // [owners]
  std::vector<uint32_t> counts_;    // [owners]
  std::vector<uint64_t> occupied_;  // [owners] bytes of the original and the arrived slots
  std::vector<uint32_t> first_;     // [owners]
};

}  // namespace dslide
