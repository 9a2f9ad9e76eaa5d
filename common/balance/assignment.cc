#include "common/balance/assignment.h"

#include <cmath>
#include <numeric>

#include "common/base/check.h"

namespace dslide {
namespace {

constexpr double kIdleShare = 1e-3;  // load of an idle slot, of the mean load

double LeastLoad(const std::vector<BalanceSlot>& slots) {
  double sum = 0;
  for (const BalanceSlot& slot : slots) {
    DSLIDE_CHECK(std::isfinite(slot.load) && slot.load >= 0);
    sum += slot.load;
  }
  return sum > 0 ? kIdleShare * sum / static_cast<double>(slots.size()) : 1.0;
}

}  // namespace

Assignment::Assignment(const std::vector<BalanceOwner>& owners,
                       const std::vector<BalanceSlot>& slots)
    : owners_(&owners),
      loads_(owners.size(), 0.0),
      counts_(owners.size(), 0),
      occupied_(owners.size(), 0) {
  DSLIDE_CHECK(!owners.empty());
  for (const BalanceOwner& owner : owners) {
    DSLIDE_CHECK(std::isfinite(owner.capacity) && owner.capacity > 0);
  }
  const double least = LeastLoad(slots);
  slots_.reserve(slots.size());
  for (const BalanceSlot& slot : slots) {
    DSLIDE_CHECK(slot.owner == kNoOwner || slot.owner < owners.size());
    const double load = slot.load > 0 ? slot.load : least;
    slots_.push_back({load, slot.bytes, slot.owner, kNoOwner, slot.owner, 0, 0, true});
    if (slot.owner == kNoOwner) continue;
    counts_[slot.owner]++;
    occupied_[slot.owner] += slot.bytes;
  }
  Rebase();
}

void Assignment::Rebase() {
  std::vector<uint32_t> order(slots_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const double x = Density(a), y = Density(b);
    return x != y ? x < y : a > b;
  });
  first_.assign(owners_->size(), kNoOwner);
  loads_.assign(owners_->size(), 0.0);  // summed again: moves leave rounding errors
  for (const uint32_t s : order) {
    Slot& slot = slots_[s];
    slot.home = MustMove(s) ? kNoOwner : slot.owner;
    if (slot.owner != kNoOwner) Link(s, slot.owner);
    slot.in_order = true;
  }
  for (const Slot& slot : slots_) {
    if (slot.owner != kNoOwner) loads_[slot.owner] += slot.load;
  }
}

bool Assignment::MustMove(uint32_t slot) const {
  const uint32_t owner = slots_[slot].owner;
  return owner == kNoOwner || (*owners_)[owner].leaving;
}

void Assignment::Link(uint32_t slot, uint32_t owner) {
  const uint32_t second = first_[owner];
  slots_[slot].previous = kNoOwner;
  slots_[slot].next = second;
  slots_[slot].in_order = false;
  if (second != kNoOwner) slots_[second].previous = slot;
  first_[owner] = slot;
}

void Assignment::Unlink(uint32_t slot) {
  const Slot& s = slots_[slot];
  if (s.previous == kNoOwner) {
    first_[s.owner] = s.next;
  } else {
    slots_[s.previous].next = s.next;
  }
  if (s.next != kNoOwner) slots_[s.next].previous = s.previous;
}

void Assignment::Move(uint32_t slot, uint32_t to) {
  Slot& s = slots_[slot];
  DSLIDE_CHECK(s.owner != to);
  if (s.owner != kNoOwner) {
    Unlink(slot);
    loads_[s.owner] -= s.load;
    counts_[s.owner]--;
    if (s.owner != s.origin) occupied_[s.owner] -= s.bytes;
  }
  s.owner = to;
  Link(slot, to);
  loads_[to] += s.load;
  counts_[to]++;
  if (to != s.origin) occupied_[to] += s.bytes;
}

double Assignment::Mean() const {
  double load = 0, capacity = 0;
  for (uint32_t o = 0; o < owners_->size(); ++o) {
    if (!Stays(o)) continue;
    load += loads_[o];
    capacity += (*owners_)[o].capacity;
  }
  return capacity > 0 ? load / capacity : 0.0;
}

double Assignment::Imbalance() const {
  double load = 0, capacity = 0, most = 0;
  for (uint32_t o = 0; o < owners_->size(); ++o) {
    if (!Stays(o) && counts_[o] == 0) continue;
    load += loads_[o];
    capacity += (*owners_)[o].capacity;
    most = std::max(most, loads_[o] / (*owners_)[o].capacity);
  }
  return load > 0 ? most * capacity / load : 1.0;
}

uint64_t Assignment::FreeBytes(uint32_t owner) const {
  const uint64_t limit = (*owners_)[owner].memory_bytes;
  if (limit == 0) return kUnbounded;
  return limit - std::min(limit, occupied_[owner]);
}

uint64_t Assignment::SentBytes() const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (slot.origin != kNoOwner && slot.owner != slot.origin) bytes += slot.bytes;
  }
  return bytes;
}

}  // namespace dslide
