// What every member should do, from what was measured of it: batches of a lease and batches in
// flight of a worker, shares of the servers, new hash tables.
//
// The strategy (strategy.h) decides every five seconds, and half a second after a worker's speed
// has become known. Workers without a decision have leases of Strategy::kFirstLease batches.
//
// Pure; used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "scheduler/balance/strategy.h"
#include "scheduler/base/outbox.h"
#include "scheduler/leases/lease_book.h"
#include "scheduler/members/roster.h"
#include "scheduler/members/speed_meter.h"

namespace dslide {

class Advisor {
 public:
  // What the core knows when decisions are due.
  struct Measures {
    std::vector<ServerMeasure> servers;  // of the plan
    RunMeasure run;
    std::vector<OpenLease> leases;  // in the order of their grants
    double bytes_per_batch = 0;     // between a worker and all servers; 0: not known
    // Servers keep workers waiting, so old leases are not the workers' fault.
    bool servers_pause = false;
    // Capacities of all servers are measured. Shares are logged only then.
    bool capacities_measured = false;
  };

  // A worker got a lease: its clock begins with the first one, so that batches which it sends at
  // once count from there.
  void OnLease(Incarnation worker, int64_t now_ms) { speeds_.try_emplace(worker, now_ms); }
  // A worker reported a batch.
  void OnBatch(Incarnation worker, int64_t now_ms);
  double BatchesPerSecond(Incarnation worker, int64_t now_ms) const;  // 0: not known

  bool Due(const Roster& roster, int64_t now_ms) const;
  // Decides for all workers of the roster and all servers given, and logs what has changed.
  void Decide(const Roster& roster, const Measures& measures, int64_t now_ms, Outbox* out);

  uint32_t LeaseBatches(Incarnation worker) const;
  uint32_t InFlightCap(Incarnation worker) const;  // 0: none
  // The orders in every reply to a heartbeat. `pause_ms`: how long workers begin no batch.
  HeartbeatReply OrdersFor(const Member& member, uint32_t pause_ms) const;
  // Sends all workers their orders at once.
  void SendOrders(const Roster& roster, uint32_t pause_ms, Outbox* out) const;
  // The last decisions for all, also for workers whose speed is not known.
  const Decisions& decisions() const { return decisions_; }

  // Where the buckets of a server's tables no longer tell neurons apart all servers draw new hash
  // functions: slots then keep their codes when they move. To be called with each heartbeat of a
  // server in asynchronous training; in synchronous training the result would depend on when the
  // tables are built.
  void RenewTables(const Member& server, const Config& config, const Roster& roster, int64_t now_ms,
                   Outbox* out);

  void CheckInvariants() const;

 private:
  WorkerMeasure Measure(const Member& worker, const Measures& measures,
                        const std::map<Incarnation, OpenLease>& oldest_leases,
                        int64_t now_ms) const;

  Strategy strategy_;
  Decisions decisions_;
  std::map<Incarnation, WorkerDecision> by_worker_;  // of workers whose speed is known
  std::map<Incarnation, SpeedMeter> speeds_;         // of workers that had a lease
  int64_t decided_ms_ = 0;
  uint32_t hash_round_ = 0;  // the newest round that servers were ordered to build
};

}  // namespace dslide
