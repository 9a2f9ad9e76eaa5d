#include "common/balance/planner.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/balance/assignment.h"
#include "common/balance/relief.h"
#include "common/base/check.h"
#include "common/base/plural.h"

namespace dslide {
namespace {

constexpr double kLeastGain = 0.02;   // of the imbalance, that is worth moves
constexpr double kLevelStep = 0.005;  // precision of the search for the lowest level
constexpr int kMostRounds = 8;
constexpr size_t kPlaces = 8;  // owners that are compared for a slot to be placed
constexpr double kRounding = 1e-9;
constexpr uint64_t kNoBudget = std::numeric_limits<uint64_t>::max();

// One search and the assignment that it has reached.
class Search {
 public:
  Search(const std::vector<BalanceOwner>& owners, const std::vector<BalanceSlot>& slots,
         const BalanceOptions& options)
      : options_(options), a_(owners, slots) {
    FindNew();
  }

  const Assignment& assignment() const { return a_; }
  uint32_t unplaced() const { return unplaced_; }
  // Bytes of the cheapest move that the budget forbade; 0: none.
  uint64_t forbidden_bytes() const { return forbidden_; }
  bool AboveGoal() const { return Highest() > options_.goal * (1 + kRounding); }
  double Highest() const {
    const double mean = a_.Mean();
    double most = 0;
    for (uint32_t o = 0; o < a_.owners() && mean > 0; ++o) {
      if (a_.Stays(o)) most = std::max(most, a_.Relative(o, mean));
    }
    return most;
  }

  void Run() {
    Place(kNoBudget);
    // Rounds repeat what planning again would do, so that planning again finds nothing.
    for (int round = 0; round < kMostRounds && Wanted(); ++round) {
      const bool balanced = Balance();
      const bool filled = FillNew(kNoBudget);
      // Newly placed slots move at no cost in the first round only, so a second round follows it.
      if (!balanced && !filled && round > 0) break;
      a_.Rebase();
      FindNew();
    }
  }

  // The same within a budget, by the best steps towards `level`.
  void RunWithin(uint64_t budget, double level) {
    budget = Place(budget);
    if (forbidden_ != 0 || !Wanted()) return;
    const uint64_t before = a_.SentBytes();
    const ReliefOutcome outcome = Relieve(
        a_, {.level = level, .mean = a_.Mean(), .stop_when_stuck = false, .budget = budget});
    forbidden_ = outcome.cheapest_bytes;
    FillNew(budget - std::min(budget, a_.SentBytes() - before));
  }

 private:
  bool Wanted() const {
    return (!new_.empty() && !old_.empty()) || Highest() > options_.threshold * (1 + kRounding);
  }
  void FindNew() {
    new_.clear(), old_.clear();
    for (uint32_t o = 0; o < a_.owners(); ++o) {
      if (a_.Stays(o)) (a_.Count(o) == 0 ? new_ : old_).push_back(o);
    }
  }
  void Forbid(uint64_t bytes) {
    forbidden_ = forbidden_ == 0 ? bytes : std::min(forbidden_, bytes);
  }

  // Gives the slots that must move to the least loaded owners, the hottest slot first (Graham's
  // longest processing time first). Returns the rest of the budget.
  uint64_t Place(uint64_t budget) {
    std::vector<uint32_t> order;
    for (uint32_t s = 0; s < a_.slots(); ++s) {
      if (a_.MustMove(s)) order.push_back(s);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t x, uint32_t y) { return a_.Load(x) > a_.Load(y); });
    std::set<std::pair<double, uint32_t>> ranking;
    const auto rank = [&](uint32_t o) { return std::pair{a_.Relative(o, 1.0), o}; };
    for (uint32_t o = 0; o < a_.owners(); ++o) {
      if (a_.Stays(o)) ranking.insert(rank(o));
    }
    for (const uint32_t s : order) {
      const uint64_t bytes = a_.OriginOf(s) == kNoOwner ? 0 : a_.Bytes(s);
      uint32_t best = kNoOwner;
      double best_load = 0;
      size_t places = 0;
      for (const auto& [load, o] : ranking) {
        if (!a_.Fits(s, o)) continue;
        const double then = (a_.OwnerLoad(o) + a_.Load(s)) / a_.Capacity(o);
        if (best == kNoOwner || then < best_load) best = o, best_load = then;
        if (++places == kPlaces) break;
      }
      if (best != kNoOwner && bytes > budget) Forbid(bytes);
      if (best == kNoOwner || bytes > budget) {
        ++unplaced_;
        continue;
      }
      ranking.erase(rank(best));
      a_.Move(s, best);
      ranking.insert(rank(best));
      if (budget != kNoBudget) budget -= bytes;
    }
    return budget;
  }

  // False: no moves are worth their bytes.
  bool Balance() {
    if (!AboveGoal()) return false;
    const double before = Highest();
    std::optional<Assignment> found = Lowest();
    if (!found) return false;
    std::swap(a_, *found);
    if (!AboveGoal() || Highest() <= before * (1 - kLeastGain)) return true;
    std::swap(a_, *found);
    return false;
  }

  // An assignment at the goal, or at the lowest level found above it.
  std::optional<Assignment> Lowest() const {
    std::optional<Assignment> best = AtLevel(options_.goal);
    if (best) return best;
    double low = std::max(options_.goal, HottestSlot()), high = Highest();
    if (low > options_.goal) best = AtLevel(low);
    if (best) return best;
    while (high - low > kLevelStep) {
      const double middle = (low + high) / 2;
      if (std::optional<Assignment> found = AtLevel(middle)) {
        best = std::move(found);
        high = middle;
      } else {
        low = middle;
      }
    }
    return best;
  }
  // The relative load of the hottest slot alone: no level can be lower.
  double HottestSlot() const {
    double load = 0, capacity = 0;
    for (uint32_t s = 0; s < a_.slots(); ++s) load = std::max(load, a_.Load(s));
    for (uint32_t o = 0; o < a_.owners(); ++o) {
      if (a_.Stays(o)) capacity = std::max(capacity, a_.Capacity(o));
    }
    return load / (capacity * a_.Mean());
  }
  std::optional<Assignment> AtLevel(double level) const {
    std::optional<Assignment> best;
    for (const bool tight : {false, true}) {
      Assignment tried = a_;
      const ReliefOptions options{.level = level, .mean = a_.Mean(), .tight = tight};
      if (!Relieve(tried, options).reached) continue;
      SaveBytes(tried, options);
      if (!best || tried.SentBytes() < best->SentBytes()) best = std::move(tried);
    }
    if (best) return best;
    Assignment tried = a_;
    if (Repack(tried, {.level = level, .mean = a_.Mean()})) best = std::move(tried);
    return best;
  }

  // Gives new owners their share, even if no owner is above the goal.
  bool FillNew(uint64_t budget) {
    bool filled = false;
    const double mean = a_.Mean();
    std::set<std::pair<double, uint32_t>> donors;
    for (const uint32_t o : old_) donors.emplace(a_.Relative(o, mean), o);
    for (const uint32_t to : new_) {
      while (!donors.empty() && a_.Relative(to, mean) * options_.goal < 1) {
        const auto most = std::prev(donors.end());
        const uint32_t from = most->second;
        donors.erase(most);
        const uint32_t slot = Gift(from, to, budget);
        if (slot == kNoOwner) continue;
        if (budget != kNoBudget) budget -= a_.Bytes(slot);
        a_.Move(slot, to);
        donors.emplace(a_.Relative(from, mean), from);
        filled = true;
      }
    }
    return filled;
  }
  // The first slot by load per byte that brings the two owners closer; kNoOwner: none.
  uint32_t Gift(uint32_t from, uint32_t to, uint64_t budget) {
    if (a_.Count(from) < 2) return kNoOwner;
    const double load_from = a_.Relative(from, 1.0), load_to = a_.Relative(to, 1.0);
    for (uint32_t s = a_.First(from); s != kNoOwner; s = a_.Next(s)) {
      const double less = a_.Load(s) / a_.Capacity(from), more = a_.Load(s) / a_.Capacity(to);
      const bool closer = load_to + more / 2 < load_from - less / 2 && load_to + more < load_from;
      if (!closer || !a_.Fits(s, to)) continue;
      if (a_.Bytes(s) <= budget) return s;
      Forbid(a_.Bytes(s));
    }
    return kNoOwner;
  }

  BalanceOptions options_;
  Assignment a_;
  std::vector<uint32_t> new_;  // staying owners without slots
  std::vector<uint32_t> old_;  // the other staying owners
  uint32_t unplaced_ = 0;
  uint64_t forbidden_ = 0;
};

// The moves from the slots' original owners to the assignment.
std::vector<SlotMove> MovesTo(const Assignment& a, const std::vector<BalanceOwner>& owners) {
  std::vector<SlotMove> moves;
  for (uint32_t s = 0; s < a.slots(); ++s) {
    if (a.OwnerOf(s) != a.OriginOf(s)) moves.push_back({s, a.OriginOf(s), a.OwnerOf(s)});
  }
  const auto urgency = [&](const SlotMove& move) {
    if (move.from == kNoOwner) return 0;
    return owners[move.from].leaving ? 1 : 2;
  };
  std::stable_sort(moves.begin(), moves.end(), [&](const SlotMove& x, const SlotMove& y) {
    const int first = urgency(x), second = urgency(y);
    return first != second ? first < second : a.Density(x.slot) > a.Density(y.slot);
  });
  return moves;
}

// Bytes that an assignment made without memory limits needs above the owners' limits.
uint64_t LackingBytes(const Assignment& a, const std::vector<BalanceOwner>& owners) {
  std::vector<uint64_t> occupied(owners.size(), 0);
  for (uint32_t s = 0; s < a.slots(); ++s) {
    const uint32_t origin = a.OriginOf(s), owner = a.OwnerOf(s);
    if (owner != kNoOwner) occupied[owner] += a.Bytes(s);
    if (origin != kNoOwner && origin != owner) occupied[origin] += a.Bytes(s);
  }
  uint64_t lacking = 0;
  for (size_t o = 0; o < owners.size(); ++o) {
    if (owners[o].memory_bytes == 0) continue;
    lacking += occupied[o] - std::min(occupied[o], owners[o].memory_bytes);
  }
  return lacking;
}

// Sets plan.obstacle: why a search without a budget got no further.
void NameObstacle(const Search& search, const std::vector<BalanceOwner>& owners,
                  const std::vector<BalanceSlot>& slots, const BalanceOptions& options,
                  BalancePlan& plan) {
  if (search.unplaced() == 0 && search.Highest() <= options.threshold) return;
  plan.obstacle = BalanceObstacle::kTooCoarse;
  std::vector<BalanceOwner> unlimited = owners;
  for (BalanceOwner& owner : unlimited) owner.memory_bytes = 0;
  if (unlimited == owners) return;
  Search other(unlimited, slots, options);
  other.Run();
  if (other.unplaced() < search.unplaced() ||
      other.Highest() < search.Highest() * (1 - kLeastGain)) {
    plan.obstacle = BalanceObstacle::kMemory;
    plan.lacking_bytes = LackingBytes(other.assignment(), owners);
  }
}

}  // namespace

BalancePlan PlanBalance(const std::vector<BalanceOwner>& owners,
                        const std::vector<BalanceSlot>& slots, const BalanceOptions& options) {
  DSLIDE_CHECK(options.goal >= 1 && options.goal <= options.threshold);
  BalancePlan plan;
  plan.before = Imbalance(owners, slots);
  Search search(owners, slots, options);
  search.Run();
  NameObstacle(search, owners, slots, options, plan);
  if (options.byte_budget > 0 && search.assignment().SentBytes() > options.byte_budget) {
    const double level = std::max(options.goal, search.Highest());
    search = Search(owners, slots, options);
    search.RunWithin(options.byte_budget, level);
    plan.obstacle = BalanceObstacle::kBudget;
    plan.lacking_bytes = search.forbidden_bytes();
  }
  plan.moves = MovesTo(search.assignment(), owners);
  plan.after = search.assignment().Imbalance();
  plan.bytes = search.assignment().SentBytes();
  plan.unplaced = search.unplaced();
  return plan;
}

double Imbalance(const std::vector<BalanceOwner>& owners, const std::vector<BalanceSlot>& slots) {
  return Assignment(owners, slots).Imbalance();
}

std::string ObstacleText(const BalancePlan& plan, const std::string& owner_kind) {
  const auto megabytes = [](uint64_t bytes) { return (bytes + (1u << 20) - 1) >> 20; };
  switch (plan.obstacle) {
    case BalanceObstacle::kNone:
      return "";
    case BalanceObstacle::kTooCoarse:
      if (plan.unplaced > 0)
        return fmt::format("no {} is left for {}", owner_kind, Plural(plan.unplaced, "slot"));
      return "no move helps: one slot alone has too much load";
    case BalanceObstacle::kMemory:
      return plan.unplaced > 0
                 ? fmt::format("no {} has memory for {}: it needs {} MB more", owner_kind,
                               Plural(plan.unplaced, "slot"), megabytes(plan.lacking_bytes))
                 : fmt::format("the moves that help need {} MB more memory",
                               megabytes(plan.lacking_bytes));
    case BalanceObstacle::kBudget:
      return "the rest has to wait for bandwidth";
  }
  return "";
}

}  // namespace dslide
