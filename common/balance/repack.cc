#include <algorithm>
#include <span>
#include <vector>

#include "common/balance/relief.h"

namespace dslide {
namespace {

constexpr size_t kMostSlots = 64;
constexpr size_t kMostSteps = 20'000;

class Packer {
 public:
  Packer(const Assignment& assignment, const ReliefOptions& options) : a_(assignment) {
    for (uint32_t o = 0; o < a_.owners(); ++o) {
      room_.push_back(a_.Stays(o) ? options.level * options.mean * a_.Capacity(o) * (1 + 1e-9) : 0);
      free_bytes_.push_back(a_.FreeBytes(o));
    }
    for (uint32_t s = 0; s < a_.slots(); ++s) {
      const uint32_t owner = a_.OwnerOf(s);
      if (owner == kNoOwner || !a_.Stays(owner)) continue;
      order_.push_back(s);
      if (a_.OriginOf(s) != owner) free_bytes_[owner] += a_.Bytes(s);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t x, uint32_t y) { return a_.Load(x) > a_.Load(y); });
    chosen_.resize(order_.size());
    ranked_.resize(order_.size() * room_.size());
  }

  bool Run() {
    Place(0, 0);
    return !best_.empty();
  }
  void Apply(Assignment& assignment) const {
    for (size_t i = 0; i < order_.size(); ++i) {
      if (assignment.OwnerOf(order_[i]) != best_[i]) assignment.Move(order_[i], best_[i]);
    }
  }

 private:
  // Places order_[i] and the slots after it; the slots before it cost `cost`.
  void Place(size_t i, double cost) {
    if (steps_ == kMostSteps || (!best_.empty() && cost >= best_cost_)) return;
    ++steps_;
    if (i == order_.size()) {
      best_ = chosen_;
      best_cost_ = cost;
      return;
    }
    const uint32_t slot = order_[i], home = a_.HomeOf(slot);
    if (home != kNoOwner) Try(i, home, cost);
    for (const uint32_t o : RankOwners(i)) {
      if (o != home) Try(i, o, cost);
    }
  }
  // The owners, those with most room first. Valid until order_[i] is placed again.
  std::span<const uint32_t> RankOwners(size_t i) {
    const std::span<uint32_t> ranked(&ranked_[i * room_.size()], room_.size());
    for (uint32_t o = 0; o < ranked.size(); ++o) {  // insertion: there are few owners
      uint32_t at = o;
      for (; at > 0 && room_[o] > room_[ranked[at - 1]]; --at) ranked[at] = ranked[at - 1];
      ranked[at] = o;
    }
    return ranked;
  }
  void Try(size_t i, uint32_t owner, double cost) {
    const uint32_t slot = order_[i];
    const uint64_t bytes = a_.OriginOf(slot) == owner ? 0 : a_.Bytes(slot);
    if (a_.Load(slot) > room_[owner] || bytes > free_bytes_[owner]) return;
    const bool free = a_.HomeOf(slot) == kNoOwner || a_.HomeOf(slot) == owner;
    chosen_[i] = owner;
    room_[owner] -= a_.Load(slot);
    free_bytes_[owner] -= bytes;
    Place(i + 1, cost + (free ? 0.0 : static_cast<double>(a_.Bytes(slot)) + 1));
    room_[owner] += a_.Load(slot);
    free_bytes_[owner] += bytes;
  }

  const Assignment& a_;
  std::vector<double> room_;          // [owners] load missing to the level
  std::vector<uint64_t> free_bytes_;  // [owners]
  std::vector<uint32_t> order_;       // slots that are placed, the hottest first
  std::vector<uint32_t> chosen_;      // [order_] owners
  std::vector<uint32_t> best_;        // the same; empty: none yet
  std::vector<uint32_t> ranked_;      // [order_, owners]
  double best_cost_ = 0;
  size_t steps_ = 0;
};

}  // namespace

bool Repack(Assignment& assignment, const ReliefOptions& options) {
  if (assignment.slots() > kMostSlots) return false;
  Packer packer(assignment, options);
  if (!packer.Run()) return false;
  packer.Apply(assignment);
  return true;
}

}  // namespace dslide
