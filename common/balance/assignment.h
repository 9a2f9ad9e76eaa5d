// Who would have which slot: the state that the planner's search works on.
//
// Internal to planner.cc and relief.cc. Loads are effective ones: idle and unknown slots count a
// little, so that they are spread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/balance/planner.h"

namespace dslide {

class Assignment {
 public:
  static constexpr uint64_t kUnbounded = uint64_t{1} << 62;  // sums of bytes can be added to it

  // The owners must outlive it. Slots are where they are now.
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
  // It is nobody's, or its owner is leaving.
  bool MustMove(uint32_t slot) const;
  // It is with an owner that stays, where the search began: see Rebase().
  bool AtHome(uint32_t slot) const { return slots_[slot].owner == slots_[slot].home; }
  uint32_t HomeOf(uint32_t slot) const { return slots_[slot].home; }

  // Load over capacity of the owners that stay.
  double Mean() const;
  // Of an owner, over `mean`.
  double Relative(uint32_t owner, double mean) const {
    return loads_[owner] / ((*owners_)[owner].capacity * mean);
  }
  // The largest relative load (planner.h), also of leaving owners that have slots.
  double Imbalance() const;

  // `to` has memory for it.
  bool Fits(uint32_t slot, uint32_t to) const {
    const Slot& s = slots_[slot];
    const uint64_t limit = (*owners_)[to].memory_bytes;
    return s.origin == to || limit == 0 || occupied_[to] + s.bytes <= limit;
  }
  // kUnbounded where no limit is known.
  uint64_t FreeBytes(uint32_t owner) const;
  void Move(uint32_t slot, uint32_t to);
  // What moving it costs: bytes more that would be sent, and 1 for the move; less than 0 for one
  // that goes back home. Slots that have to move anyhow cost nothing.
  double Cost(uint32_t slot, uint32_t to) const {
    return CostAt(slots_[slot], to) - CostAt(slots_[slot], slots_[slot].owner);
  }
  // Bytes that are sent from the origins.
  uint64_t SentBytes() const;

  // The slots of an owner as a list: first those that came, then by falling Density().
  uint32_t First(uint32_t owner) const { return first_[owner]; }
  uint32_t Next(uint32_t slot) const { return slots_[slot].next; }
  // Load that moving it relieves per cost. No later slot of the list has more if InOrder().
  double Density(uint32_t slot) const {
    return slots_[slot].load / (static_cast<double>(slots_[slot].bytes) + 1);
  }
  bool InOrder(uint32_t slot) const { return slots_[slot].in_order; }

  // Costs count from here on: where the slots are now is their home.
  void Rebase();

 private:
  struct Slot {
    double load;
    uint64_t bytes;
    uint32_t origin;  // before the plan
    uint32_t home;    // before this round of the search; kNoOwner: it must move
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
  std::vector<uint64_t> occupied_;  // [owners] by what it had and what comes
  std::vector<uint32_t> first_;     // [owners]
};

}  // namespace dslide
