#include "common/balance/relief.h"

#include <optional>
#include <set>
#include <utility>

namespace dslide {
namespace {

constexpr size_t kSwapReceivers = 8;  // owners whose slots are tried for an exchange
constexpr size_t kSwapAllPairs = 64;  // slots; with more, only those of a fitting load are tried
constexpr double kLeastShare = 1e-9;  // smaller differences are rounding
constexpr uint32_t kNoSlot = kNoOwner;

// Owners in the order of a number.
using Ranking = std::set<std::pair<double, uint32_t>>;

class Relief {
 public:
  Relief(Assignment& assignment, const ReliefOptions& options)
      : a_(assignment), options_(options), budget_(options.budget) {
    for (uint32_t o = 0; o < a_.owners(); ++o) {
      if (a_.Stays(o)) Rank(o);
    }
  }

  ReliefOutcome Run() {
    bool stuck = false;
    size_t steps = 4 * a_.slots() + 1000;  // far more than needed, even if each gains little
    while (!loaded_.empty() && loaded_.rbegin()->first > options_.level * (1 + kLeastShare)) {
      const uint32_t from = loaded_.rbegin()->second;
      std::optional<Step> step = BestMove(from);
      if (!step) step = BestSwap(from);
      if (step && steps > 0) {
        Apply(from, *step);
        --steps;
        continue;
      }
      stuck = true;
      if (options_.stop_when_stuck) break;
      loaded_.erase(std::prev(loaded_.end()));
    }
    return {!stuck, cheapest_};
  }

 private:
  struct Step {
    uint32_t slot;
    uint32_t to;
    uint32_t back = kNoSlot;  // slot that comes in exchange
    double cost = 0;
    double score = 0;  // gain per cost
  };

  double Limit(uint32_t owner) const { return options_.level * options_.mean * a_.Capacity(owner); }
  double Room(uint32_t owner) const { return Limit(owner) - a_.OwnerLoad(owner); }
  void Rank(uint32_t o) {
    loaded_.emplace(a_.Relative(o, options_.mean), o);
    room_.emplace(Room(o), o);
  }
  void Unrank(uint32_t o) {
    loaded_.erase({a_.Relative(o, options_.mean), o});
    room_.erase({Room(o), o});
  }
  // How much the total load above the level falls when `load` moves from `from` to `to`; 0 if `to`
  // would then be loaded as much as `from` is now.
  double Gain(double load, uint32_t from, uint32_t to) const {
    const double room = Room(to);
    if (room <= 0 ||
        (a_.OwnerLoad(to) + load) / a_.Capacity(to) >= a_.OwnerLoad(from) / a_.Capacity(from)) {
      return 0;
    }
    return std::min(load, -Room(from)) - std::max(0.0, load - room);
  }
  void Consider(uint32_t from, Step step, double load, std::optional<Step>& best) {
    const double gain = Gain(load, from, step.to);
    if (gain <= kLeastShare * Limit(from)) return;
    if (step.cost > static_cast<double>(budget_)) {
      const auto bytes = static_cast<uint64_t>(step.cost);
      cheapest_ = cheapest_ == 0 ? bytes : std::min(cheapest_, bytes);
      return;
    }
    step.score = gain / std::max(step.cost, 0.5);
    if (!best || step.score > best->score) best = step;
  }

  // The owner with room that should get the slot; kNoOwner: none of them has memory.
  uint32_t Receiver(uint32_t slot) const {
    if (options_.tight) {
      const auto fitting = room_.lower_bound({a_.Load(slot), 0});
      for (auto it = fitting; it != room_.end(); ++it) {
        if (a_.Fits(slot, it->second)) return it->second;
      }
    }
    for (auto it = room_.rbegin(); it != room_.rend() && it->first > 0; ++it) {
      if (a_.Fits(slot, it->second)) return it->second;
    }
    return kNoOwner;
  }

  std::optional<Step> BestMove(uint32_t from) {
    std::optional<Step> best;
    if (room_.rbegin()->first <= 0) return best;
    for (uint32_t s = a_.First(from); s != kNoSlot; s = a_.Next(s)) {
      if (best && a_.InOrder(s) && a_.Density(s) <= best->score) break;
      const uint32_t to = Receiver(s);
      if (to == kNoOwner) continue;
      Consider(from, {s, to, kNoSlot, a_.Cost(s, to)}, a_.Load(s), best);
    }
    return best;
  }

  void ConsiderSwap(uint32_t from, uint32_t slot, uint32_t to, uint32_t back,
                    std::optional<Step>& best) {
    const double load = a_.Load(slot) - a_.Load(back);
    if (load <= 0 || !a_.Fits(back, from)) return;
    Consider(from, {slot, to, back, a_.Cost(slot, to) + a_.Cost(back, from)}, load, best);
  }

  std::optional<Step> BestSwap(uint32_t from) {
    std::optional<Step> best;
    size_t receivers = 0;
    std::vector<std::pair<double, uint32_t>> theirs;  // by load
    for (auto it = room_.rbegin(); it != room_.rend() && it->first > 0; ++it) {
      if (++receivers > kSwapReceivers) break;
      const auto [room, to] = *it;
      theirs.clear();
      for (uint32_t s = a_.First(to); s != kNoSlot; s = a_.Next(s)) {
        theirs.emplace_back(a_.Load(s), s);
      }
      std::sort(theirs.begin(), theirs.end());
      for (uint32_t s = a_.First(from); s != kNoSlot; s = a_.Next(s)) {
        if (!a_.Fits(s, to)) continue;
        if (theirs.size() <= kSwapAllPairs) {
          for (const auto& [load, back] : theirs) ConsiderSwap(from, s, to, back, best);
          continue;
        }
        // The gain is best where the exchange just relieves `from`, or just fills `to`.
        for (const double load : {-Room(from), room}) {
          const auto near = std::lower_bound(theirs.begin(), theirs.end(),
                                             std::pair{a_.Load(s) - load, uint32_t{0}});
          if (near != theirs.end()) ConsiderSwap(from, s, to, near->second, best);
          if (near != theirs.begin()) ConsiderSwap(from, s, to, std::prev(near)->second, best);
        }
      }
    }
    return best;
  }

  void Apply(uint32_t from, const Step& step) {
    Unrank(from);
    Unrank(step.to);
    a_.Move(step.slot, step.to);
    if (step.back != kNoSlot) a_.Move(step.back, from);
    Rank(from);
    Rank(step.to);
    if (options_.budget == std::numeric_limits<uint64_t>::max()) return;
    budget_ = static_cast<uint64_t>(static_cast<double>(budget_) - step.cost);
  }

  Assignment& a_;
  ReliefOptions options_;
  uint64_t budget_;
  uint64_t cheapest_ = 0;
  Ranking loaded_;  // by relative load
  Ranking room_;    // by load missing to the level
};

// Improves a set of moves in place.
class Saving {
 public:
  Saving(Assignment& assignment, const ReliefOptions& options) : a_(assignment), options_(options) {
    for (uint32_t s = 0; s < a_.slots(); ++s) {
      if (a_.HomeOf(s) != kNoOwner && !a_.AtHome(s)) moved_.push_back(s);
    }
    // The most expensive first.
    std::stable_sort(moved_.begin(), moved_.end(),
                     [&](uint32_t x, uint32_t y) { return a_.Bytes(x) > a_.Bytes(y); });
  }

  void Run() {
    for (int pass = 0; pass < kPasses && Pass(); ++pass) continue;
  }

 private:
  static constexpr int kPasses = 4;
  static constexpr size_t kMostLooks = 2'000'000;  // at slots: bounds the time of large cases

  // Whether `owner` keeps the level with `load` added.
  bool Has(uint32_t owner, double load) const {
    const double limit = options_.level * options_.mean * a_.Capacity(owner);
    return a_.OwnerLoad(owner) + load <= limit * (1 + kLeastShare);
  }
  bool Pass() {
    bool changed = false;
    for (uint32_t& s : moved_) {
      if (a_.AtHome(s)) continue;
      const uint32_t home = a_.HomeOf(s);
      if (Has(home, a_.Load(s))) {
        a_.Move(s, home);
        changed = true;
      } else if (const uint32_t other = Substitute(s); other != kNoSlot) {
        const uint32_t to = a_.OwnerOf(s);
        a_.Move(s, home);
        a_.Move(other, to);
        s = other;
        changed = true;
      }
    }
    return changed;
  }
  // The cheapest slot of the same home that could move instead.
  uint32_t Substitute(uint32_t slot) {
    const uint32_t home = a_.HomeOf(slot), to = a_.OwnerOf(slot);
    uint32_t best = kNoSlot;
    for (uint32_t s = a_.First(home); s != kNoSlot && looks_ < kMostLooks; s = a_.Next(s)) {
      ++looks_;
      const double load = a_.Load(s) - a_.Load(slot);
      if (!a_.AtHome(s) || a_.Bytes(s) >= a_.Bytes(best == kNoSlot ? slot : best) ||
          !Has(home, -load) || !Has(to, load) || !a_.Fits(s, to)) {
        continue;
      }
      best = s;
    }
    return best;
  }

  Assignment& a_;
  ReliefOptions options_;
  std::vector<uint32_t> moved_;
  size_t looks_ = 0;
};

}  // namespace

ReliefOutcome Relieve(Assignment& assignment, const ReliefOptions& options) {
  return Relief(assignment, options).Run();
}

void SaveBytes(Assignment& assignment, const ReliefOptions& options) {
  Saving(assignment, options).Run();
}

}  // namespace dslide
