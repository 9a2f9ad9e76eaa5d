// Plans the slot moves that give every owner load in proportion to its capacity.
//
// An owner is a server of the cluster, or an executor of a server; both are balanced alike. Pure:
// the same input gives the same plan.
//
// An owner's relative load is its load / capacity, divided by total load / total capacity. The
// imbalance is the largest relative load: 1 is perfect; at 1.2 training takes about 20 % longer,
// because a batch waits for every server.
//
// The problem (least bytes for a balance) contains bin packing, so it is solved by a greedy search
// (most load relieved per byte first, from the most loaded owner to the least loaded one, swaps
// where no single move helps) and improved by taking back and exchanging moves. Compared with all
// assignments of small cases (tests/common/balance/planner_test.cc), it always reaches a reachable
// goal, with 1.02 times the fewest bytes on average.
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
  bool leaving = false;       // must end without slots and gets none
  bool operator==(const BalanceOwner&) const = default;
};

struct BalanceSlot {
  double load = 0;            // work, in any unit; 0: unknown or idle
  uint64_t bytes = 0;         // in memory, and sent by a move
  uint32_t owner = kNoOwner;  // index into the owners; kNoOwner: has to be placed, sends nothing
};

// The busiest server's load over the mean, above which slots move. Equal servers with nothing to
// balance stay at 1.02 (tools/bench/balance, control).
inline constexpr double kBalanceThreshold = 1.15;

struct BalanceOptions {
  double threshold = kBalanceThreshold;  // up to this imbalance nothing moves for balance alone
  double goal = 1.05;                    // imbalance that moves aim at; 1 <= goal <= threshold
  uint64_t byte_budget = 0;              // most bytes that the plan's moves send; 0: no limit
};

struct SlotMove {
  uint32_t slot = 0;
  uint32_t from = kNoOwner;
  uint32_t to = 0;
  bool operator==(const SlotMove&) const = default;
};

// Why a plan does not reach its goal.
enum class BalanceObstacle : uint8_t {
  kNone,
  kTooCoarse,  // no move helps: single slots are too hot; or no owner stays
  kMemory,     // `lacking_bytes` more would be needed, over all owners
  kBudget,     // the rest has to wait for the next plan's budget
};

struct BalancePlan {
  // Order: vacant slots, slots of leaving owners, then by load relieved per byte, the most first.
  // Together the moves respect memory and budget; only slots that had to be placed can make the
  // imbalance worse. A slot moves at most once.
  std::vector<SlotMove> moves;
  double before = 1;      // imbalance, without the vacant slots
  double after = 1;       // when all moves are done
  uint64_t bytes = 0;     // sent by the moves
  uint32_t unplaced = 0;  // slots still vacant, or still with leaving owners
  BalanceObstacle obstacle = BalanceObstacle::kNone;
  uint64_t lacking_bytes = 0;  // kMemory: see above; kBudget: of the cheapest move left out
};

// The moves that bring the imbalance to options.goal, or as low as possible, for few bytes. No
// moves while it is at most options.threshold, unless a slot is vacant, its owner is leaving, or a
// staying owner has no slot (a new owner gets its share).
//
// Memory: during a move both owners have the slot, so an owner's present slots and all arriving
// ones must fit together. An owner above its limit gets nothing.
// Slots of load 0 have little weight: they are spread evenly when they must be placed, and stay
// otherwise. If all loads are 0, all slots weigh the same.
// Planning again after the moves gives no more moves, except for kMemory (moves make room) and
// kBudget.
// A plan that neither reaches the goal nor lowers the imbalance by 2 % is not worth its bytes: no
// moves.
// Checked: owners not empty, capacities positive, loads finite and not negative, owner indices in
// range. Time: about the number of slots times the logarithm of the owners.
BalancePlan PlanBalance(const std::vector<BalanceOwner>& owners,
                        const std::vector<BalanceSlot>& slots, const BalanceOptions& options);

// The largest relative load; 1 if nothing is loaded. Leaving owners without slots and vacant slots
// do not count.
double Imbalance(const std::vector<BalanceOwner>& owners, const std::vector<BalanceSlot>& slots);

// The obstacle as text, such as "no server has memory for 3 slots: 1200 MB are lacking"; "" if
// there is none. `owner_kind` is "server" or "executor".
std::string ObstacleText(const BalancePlan& plan, const std::string& owner_kind);

}  // namespace dslide
