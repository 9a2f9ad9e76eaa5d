// What each slot costs and what each server can do, from the servers' load reports: the planner's
// input.
//
// A slot's load is its work per batch, smoothed over reports: the mean of the first ones, then
// exponential with a time constant of 10 s of training. Work is counted in units that do not depend
// on the machine, and pauses (reports without batches) change nothing, so loads of different
// servers and times compare. A server's capacity is work per busy second, summed over its
// executors. Load over capacity is the time that a batch takes at a server.
//
// Loads belong to slots, not to servers: they go along when a slot moves. Pure; used by the
// scheduler's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/balance/planner.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace dslide {

class SlotLoads {
 public:
  // `slot_bytes`: what a slot is expected to have, until its server reports it.
  explicit SlotLoads(uint32_t slots, uint64_t slot_bytes = 0)
      : slots_(slots, Slot{.bytes = slot_bytes}) {}

  // A server joined. `memory_limit_bytes`: it may use for everything; 0: not known.
  void Add(Incarnation server, uint32_t cores, uint64_t memory_limit_bytes);
  // Its slots are others, or its first: what its next reports say is not what it can do, for it
  // copies and hashes rows and touches memory for the first time, nor what its slots cost, for it
  // has worked on batches that begin anew. What was known of both stays. REQUIRES that it was
  // added.
  static constexpr uint32_t kWarmUpReports = 5;
  void WarmUp(Incarnation server, uint32_t reports = kWarmUpReports);
  // Forgets the servers that are not among these. What they reported of slots stays: others have
  // them or will.
  void Keep(const std::set<Incarnation>& servers);

  // A heartbeat's report. Slots outside [0, slots) are ignored, and so are reports of strangers.
  // The first report of a slot by another server than before covers a part of its interval only: of
  // it just the bytes count.
  void Report(Incarnation server, const LoadReport& report, uint64_t memory_used_bytes);

  // Work per batch; a slot that was not measured counts as the mean of those that were, and 0 if
  // none was.
  double Load(uint32_t slot) const;
  uint64_t SlotBytes(uint32_t slot) const;  // the last report's; before: as expected

  // The following REQUIRE that the server was added.
  // Work per second; > 0. Not measured yet: its cores times the median capacity of a core of those
  // that are, or its cores if none is.
  double Capacity(Incarnation server) const;
  bool CapacityMeasured(Incarnation server) const;
  double BusyShare(Incarnation server) const;  // of its executors, in the last report, [0, 1]
  // Largest over mean work of its executors; 1 if it has one, or nothing was measured. What the
  // server can still gain by balancing within.
  double ExecutorSkew(Incarnation server) const;
  uint64_t MemoryUsed(Incarnation server) const;   // last report
  uint64_t MemoryLimit(Incarnation server) const;  // as it joined; 0: not known

  // The planner's input: one owner a server, in this order, and one slot a slot.
  // A server's memory for slots is its limit less what it uses beside slots.
  std::vector<BalanceOwner> Owners(std::span<const Incarnation> servers,
                                   const std::vector<bool>& leaving) const;
  // `slot_owner`: [V] as in Plan; values that are no server's index are vacant slots.
  std::vector<BalanceSlot> Slots(std::span<const uint16_t> slot_owner, size_t servers) const;

  // Load over capacity of each server over the mean of all (planner.h).
  std::vector<double> RelativeLoads(std::span<const Incarnation> servers,
                                    std::span<const uint16_t> slot_owner) const;
  // The largest of them.
  double Imbalance(std::span<const Incarnation> servers,
                   std::span<const uint16_t> slot_owner) const;
  // What the busiest executor of the busiest server needs for a batch: the cluster does at most one
  // in so long. 0: not known.
  double SecondsPerBatch(std::span<const Incarnation> servers,
                         std::span<const uint16_t> slot_owner) const;

 private:
  struct Slot {
    double load = 0;       // work per batch
    uint32_t reports = 0;  // that it is made of
    uint64_t bytes = 0;
    Incarnation reporter{};
  };
  struct Server {
    uint32_t cores = 1;
    uint64_t memory_limit_bytes = 0;
    uint64_t memory_used_bytes = 0;
    uint64_t slot_bytes = 0;            // of the last report
    double busy_share = 0;              // the same
    double work = 0;                    // of late, by executors that were busy enough to tell
    double busy_s = 0;                  // of those
    uint32_t reports = 0;               // with batches
    uint32_t warm_up = 0;               // reports with slots that do not tell its capacity yet
    std::vector<double> executor_work;  // [executors] per batch
  };
  const Server& Get(Incarnation server) const;
  void MeasureExecutors(Server& server, const LoadReport& report);
  double MeanLoad() const;
  double CoreCapacity() const;  // where a server's own is not measured

  std::vector<Slot> slots_;  // [V]
  std::map<Incarnation, Server> servers_;
  mutable std::optional<double> core_capacity_;  // of what servers_ has; none: to be found
};

}  // namespace dslide
