// The load of each slot and the capacity of each server, from the servers' load reports: the
// planner's input.
//
// A slot's load is its work per batch, smoothed over reports: the mean of the first ones, then
// exponential with a time constant of 10 s of training. Work is counted in units that do not depend
// on the machine, and pauses (reports without batches) change nothing, so loads of different
// servers and times are comparable. A server's capacity is work per busy second, summed over its
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
  // `slot_bytes`: the expected bytes of each slot, until its server reports them.
  explicit SlotLoads(std::span<const uint64_t> slot_bytes) {
    for (const uint64_t bytes : slot_bytes) slots_.push_back(Slot{.bytes = bytes});
  }

  // Adds a server that joined. `memory_limit_bytes`: limit of all its memory; 0: not known.
  // `newcomer`: it comes to a run that has its servers, and has to prove itself. `disk_bytes`: for
  // rows that its memory has no room for.
  void Add(Incarnation server, uint32_t cores, uint64_t memory_limit_bytes, bool newcomer = false,
           uint64_t disk_bytes = 0);
  // A worker has done a batch by the plan in force. Newcomers with slots are the more believed.
  void OnBatch(const Plan& plan);
  // Whether a server is a newcomer that has not done kProofBatches batches.
  static constexpr uint32_t kProofBatches = 256;
  bool Unproven(Incarnation server) const;
  // Call when a server got its first or other slots. Its next reports do not show its capacity (the
  // server copies and hashes rows and touches memory for the first time) nor its slots' loads (it
  // worked on batches that begin again). Both keep their known values. REQUIRES that the server was
  // added.
  static constexpr uint32_t kWarmUpReports = 5;
  void WarmUp(Incarnation server, uint32_t reports = kWarmUpReports);
  // Forgets all servers but these. Their reports about slots stay: the slots have other owners or
  // will have.
  void Keep(const std::set<Incarnation>& servers);

  // Takes a heartbeat's report. Slots outside [0, slots) and reports of strangers are ignored. When
  // a slot has a new server, that server's first report covers only a part of the interval, so only
  // the slot's bytes count.
  // `plan`: slots that are another server's by it are ignored too.
  void Report(Incarnation server, const LoadReport& report, uint64_t memory_used_bytes,
              const Plan* plan = nullptr);

  // Work per batch. A slot that was not measured has the mean load of the measured slots, 0 if
  // there are none.
  double Load(uint32_t slot) const;
  uint64_t SlotBytes(uint32_t slot) const;  // of the last report; before it: as expected

  // The following REQUIRE that the server was added.
  // Work per second; > 0. If not measured yet: its cores times the median capacity of a core over
  // the measured servers, or its cores if no server is measured. What a newcomer says of itself is
  // believed as far as it has proved it: at first no more than the mean of the other servers, and
  // all newcomers together no more than these; twice as much after every kProofBatches batches.
  double Capacity(Incarnation server) const;
  bool CapacityMeasured(Incarnation server) const;
  bool CapacitiesMeasured(std::span<const Incarnation> servers) const;  // of all
  double BusyShare(Incarnation server) const;  // of its executors, smoothed, [0, 1]
  // Largest over mean work of its executors; 1 if it has one executor, or nothing was measured.
  // What balancing within the server can still gain.
  double ExecutorSkew(Incarnation server) const;
  uint64_t MemoryUsed(Incarnation server) const;   // last report
  uint64_t MemoryLimit(Incarnation server) const;  // as it joined; 0: not known

  // The planner's input: one owner per server, in this order, and one entry per slot.
  // A server's memory for slots is its limit minus its memory for everything else. If all have too
  // little together, it is more by the same factor for all, as far as their disks allow.
  std::vector<BalanceOwner> Owners(std::span<const Incarnation> servers,
                                   const std::vector<bool>& leaving) const;
  // `slot_owner`: [V] as in Plan; values that are no server's index are vacant slots.
  std::vector<BalanceSlot> Slots(std::span<const uint16_t> slot_owner, size_t servers) const;

  // Load over capacity of each server, relative to the mean of all (planner.h).
  std::vector<double> RelativeLoads(std::span<const Incarnation> servers,
                                    std::span<const uint16_t> slot_owner) const;
  // The servers' loads for status and reports: the measured shares of time that their executors
  // worked, relative to the mean. Until all servers with slots have reported, they are the
  // planner's loads (RelativeLoads()). The planner's loads are estimates, and differ from the
  // measured ones for a while after slots have moved or while a newcomer is not trusted yet.
  std::vector<double> MeasuredLoads(std::span<const Incarnation> servers,
                                    std::span<const uint16_t> slot_owner) const;
  // The largest relative load.
  double Imbalance(std::span<const Incarnation> servers,
                   std::span<const uint16_t> slot_owner) const;
  // The time that the busiest executor of the busiest server needs for a batch: the cluster needs
  // at least that long. 0: not known.
  double SecondsPerBatch(std::span<const Incarnation> servers,
                         std::span<const uint16_t> slot_owner) const;

 private:
  struct Slot {
    double load = 0;       // work per batch
    uint32_t reports = 0;  // that `load` is made of
    uint64_t bytes = 0;
    Incarnation reporter{};
  };
  struct Server {
    uint32_t cores = 1;
    uint64_t memory_limit_bytes = 0;
    uint64_t disk_bytes = 0;
    uint64_t memory_used_bytes = 0;
    uint64_t slot_bytes = 0;            // of the last report
    double busy_share = 0;              // smoothed
    uint32_t busy_reports = 0;          // the number of reports in busy_share
    double work = 0;                    // recent, by executors that were busy enough to measure
    double busy_s = 0;                  // of those executors
    uint32_t reports = 0;               // with batches
    uint32_t warm_up = 0;               // reports to come that do not show its capacity
    std::vector<double> executor_work;  // [executors] per batch
    bool newcomer = false;
    uint32_t proof = 0;  // newcomers: batches, until kMostProof
  };
  // After which a newcomer is any server.
  static constexpr uint32_t kMostProof = 16 * kProofBatches;

  void AddDisks(std::span<const Incarnation> servers, std::vector<BalanceOwner>* owners) const;
  double SaidCapacity(const Server& server) const;
  const Server& Get(Incarnation server) const;
  void MeasureExecutors(Server& server, const LoadReport& report);
  double MeanLoad() const;
  double CoreCapacity() const;  // for servers whose own is not measured

  std::vector<Slot> slots_;  // [V]
  std::map<Incarnation, Server> servers_;
  mutable std::optional<double> core_capacity_;  // of servers_; none: to be computed
  uint32_t proving_version_ = 0;                 // of the plan that the next is of
  std::vector<Incarnation> proving_;             // newcomers that have slots by it
};

}  // namespace dslide
