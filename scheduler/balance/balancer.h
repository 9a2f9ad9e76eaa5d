// When and where slots move: a policy that looks at the loads and says what should be done.
//
// Slots move once the old plan has cost as much as the move would. That costs at most twice the
// best choice (ski rental; Karlin et al.: "Competitive Snoopy Caching", Algorithmica 3, 1988). So
// noise moves nothing where a move is expensive. Slots of servers that leave move at once, also
// where balancing is off.
//
// Slots move in waves. A wave is as large as the pause that is aimed at allows: the balancer learns
// from the pause of each plan switch (Learn).
//
// Pure: the core carries out what Look() says, and says when it has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/balance/planner.h"
#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/log/event.h"
#include "common/wire/messages.h"
#include "scheduler/balance/slot_loads.h"

namespace dslide {

// A plan switch: what moved, and what it cost.
struct PlanSwitchReport {
  size_t slots = 0;         // that moved
  double batch_ms = 0;      // of the batches that were in flight before; 0: workers were not paused
  int64_t paused_ms = 0;    // workers, before
  size_t unpaused = 0;      // workers that had batches in flight when the plan came
  uint64_t bytes = 0;       // sent for the slots
  uint64_t slot_bytes = 0;  // that the slots have
  uint32_t stall_us = 0;    // the longest of a server
};

// The sums of all switches since this scheduler started.
struct MoveTotals {
  uint32_t plans = 0;  // of a generation that went on
  uint64_t slots = 0;
  uint64_t bytes = 0;       // sent for them
  uint64_t slot_bytes = 0;  // that they have
  uint32_t longest_stall_us = 0;
};

// Slots that move with one plan switch.
struct SlotWave {
  std::vector<SlotMove> moves;    // owners: servers of the plan
  bool copied_before = false;     // in the background: all at once would take too long
  uint64_t bytes_per_second = 0;  // at which each server may receive copies; 0: no limit
  int64_t patience_ms = 0;        // copies that take longer are given up
};

class Balancer {
 public:
  // The loads under the plan in force. The references have to outlive the call only.
  struct View {
    const Plan& plan;
    const SlotLoads& loads;
    std::vector<Incarnation> servers;  // of the plan
    std::vector<bool> leaving;         // [servers]
    double batch_ms = 0;               // Roster::BatchMs()
    bool training = false;
  };
  // Executors of a server that should share its slots in another way, by a plan switch.
  struct UnevenServer {
    Incarnation server;
    double skew;
    Event event;
  };
  struct Decision {
    std::optional<Event> event;
    std::optional<SlotWave> wave;  // should move
    std::optional<UnevenServer> uneven;
  };

  explicit Balancer(const Config& config);

  // Minimum time between two looks: one fresh load report, and at least three stalls, so that
  // stalls stay below a quarter of the time.
  int64_t LookGapMs() const;
  // Whether it is time for a look. While workers pause for a change every tick is.
  bool Due(bool paused, int64_t now_ms) const;
  // Begins a look. Look() may follow.
  void BeginLook(int64_t now_ms);
  // REQUIRES BeginLook(now_ms) before. The caller carries the decision out.
  Decision Look(const View& view, int64_t now_ms);
  // The moves that the options ask for, whatever their price.
  static BalancePlan PlanMoves(const View& view, const BalanceOptions& options);
  static double Imbalance(const View& view);

  // The plan for Decision::uneven was sent.
  void OnShared(const UnevenServer& uneven) { shared_at_skew_[uneven.server] = uneven.skew; }
  // A server has joined: slots move until the load is even.
  void OnServersJoined() { balancing_ = true; }
  void BeginGeneration() { balancing_ = false; }
  // All servers have taken up a plan.
  void Learn(const PlanSwitchReport& report, int64_t now_ms);
  // Reports of each server that a switch makes useless (SlotLoads::WarmUp).
  uint32_t DisturbedReports(const PlanSwitchReport& report) const;
  // Forgets all servers but these.
  void Keep(const std::set<Incarnation>& servers);

  bool on() const { return cluster_.balance != Balance::kOff; }
  const MoveTotals& totals() const { return totals_; }

  void CheckInvariants() const;

 private:
  bool ByLoad() const { return on() && !synchronous_; }
  double MoveBytesPerMs() const;
  uint64_t WaveBytes(const View& view) const;
  BalancePlan PlanWave(const View& view, bool measured, bool lasting) const;
  Decision Rest(const View& view, const BalancePlan& plan, bool lasting, int64_t now_ms);
  SlotWave WaveOf(const BalancePlan& plan) const;
  std::optional<UnevenServer> FindUneven(const View& view) const;

  ClusterConfig cluster_;
  bool synchronous_;
  // Whether slots move until the load was even for some time.
  bool balancing_ = false;
  int64_t looked_ms_ = 0;
  int64_t unseen_ms_ = 0;          // from the look or switch before to the last look
  int64_t even_ms_ = 0;            // the load was so even that nothing would move
  int64_t moved_ms_ = 0;           // slots last began to move
  int64_t switched_ms_ = 0;        // last change of plan
  double lost_ms_ = 0;             // of training since then, by uneven load
  uint32_t unbalanced_looks_ = 0;  // one after the other
  double least_stall_us_ = 0;      // of recent switches; 0: no plan has changed yet
  double last_stall_us_ = 0;
  double wave_bytes_ = 4 << 20;                   // of the slots of a plan; follows the pauses
  std::map<Incarnation, double> shared_at_skew_;  // of executors, when they last shared their slots
  MoveTotals totals_;
};

}  // namespace dslide
