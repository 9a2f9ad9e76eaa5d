// Which slots should move so that every owner has load by its capacity.
//
// An owner is a server of the cluster, or an executor of a server: what holds for one holds for the
// other. Pure: the same input gives the same plan.
//
// An owner's relative load is load / capacity over the mean, which is all load over all capacity.
// The imbalance is the largest relative load: 1 is perfect, and training is slower by about as much
// as it is above 1, because a batch waits for every server.
//
// The problem (least bytes for a balance) contains bin packing, so it is solved by a greedy search
// (most load relieved per byte first, from the most loaded owner to the least loaded one, swaps
// where no single move helps) and improved by taking back and exchanging moves. Against all
// assignments of small cases (tests/common/balance/planner_test.cc) it always reaches a goal that
// can be reached, for 1.02 times the fewest bytes on average.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace dslide {

constexpr uint32_t kNoOwner = std::numeric_limits<uint32_t>::max();

struct BalanceOwner {
  double capacity = 1;        // work per second, > 0; only ratios matter
  uint64_t memory_bytes = 0;  // for slots; 0: no limit is known
  bool leaving = false;       // must end without slots, and gets none
  bool operator==(const BalanceOwner&) const = default;
};

struct BalanceSlot {
  double load = 0;            // work, in any unit; 0: not known, or idle
  uint64_t bytes = 0;         // in memory, and what a move sends
  uint32_t owner = kNoOwner;  // index into the owners; kNoOwner: has to be placed, sends nothing
};

struct BalanceOptions {
  double threshold = 1.15;   // nothing moves for the balance's sake at an imbalance up to this
  double goal = 1.05;        // what is then aimed at; 1 <= goal <= threshold
  uint64_t byte_budget = 0;  // moves of this plan send at most so much; 0: no limit
};

struct SlotMove {
  uint32_t slot = 0;
  uint32_t from = kNoOwner;
  uint32_t to = 0;
  bool operator==(const SlotMove&) const = default;
};

// Why a plan leaves something to wish for.
enum class BalanceObstacle : uint8_t {
  kNone,
  kTooCoarse,  // no move helps: single slots are too hot; or no owner stays
  kMemory,     // `lacking_bytes` more would be needed, over all owners
  kBudget,     // the rest has to wait for the next plan's budget
};

struct BalancePlan {
  // Those that must be first (of vacant slots, of leaving owners), then the most load relieved per
  // byte first. All of them together keep to memory and budget and do not make the imbalance worse
  // but for what had to be placed. A slot moves once at most.
  std::vector<SlotMove> moves;
  double before = 1;      // imbalance; vacant slots are nobody's
  double after = 1;       // when all moves are done
  uint64_t bytes = 0;     // sent by the moves
  uint32_t unplaced = 0;  // slots that are vacant, or with leaving owners, afterwards
  BalanceObstacle obstacle = BalanceObstacle::kNone;
  uint64_t lacking_bytes = 0;  // kMemory: see there; kBudget: of the cheapest move left out
};

// The moves that bring the imbalance to options.goal, or as low as possible, for few bytes. None
// while it is at most options.threshold, unless a slot is vacant or its owner is leaving, or an
// owner that is not leaving has no slot (it is new, and is given its share).
//
// Memory: during a move both owners have the slot, so what an owner has already and all that comes
// to it must fit, whatever goes. An owner above its limit gets nothing.
// Slots of load 0 count for little beside others: they are spread evenly when they have to be
// placed and stay otherwise. Where all loads are 0 every slot counts the same.
// Planning again with the moves done gives no moves, but for kMemory (moves make room) and kBudget.
// A plan that neither reaches the goal nor lowers the imbalance by 2 % is not worth its bytes: no
// moves.
// Checked: owners not empty, capacities positive, loads finite and not negative, owner indices in
// range. Time: about the number of slots times the logarithm of the owners.
BalancePlan PlanBalance(const std::vector<BalanceOwner>& owners,
                        const std::vector<BalanceSlot>& slots, const BalanceOptions& options);

// The largest relative load; 1 if nothing is loaded. Leaving owners without slots do not count;
// vacant slots do not either.
double Imbalance(const std::vector<BalanceOwner>& owners, const std::vector<BalanceSlot>& slots);

// "no server has memory for 3 slots: 1200 MB are lacking" and the like, for people; `owner_kind` is
// "server" or "executor". Empty: no obstacle.
std::string ObstacleText(const BalancePlan& plan, const std::string& owner_kind);

}  // namespace dslide
