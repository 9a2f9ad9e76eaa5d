// What lives as long as a generation of plans: a new generation begins with a new value, and
// nothing of the one before stays.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "scheduler/balance/advisor.h"
#include "scheduler/base/outbox.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/members/offences.h"
#include "scheduler/pass/pass.h"
#include "scheduler/plan/plan_change.h"

namespace dslide {

struct Generation {
  // A worker's request for a lease.
  struct Request {
    Incarnation worker;
    uint64_t sequence;  // of its message
    bool has_data;      // the worker has the training file
  };

  explicit Generation(CountedWork counted) : pass(std::move(counted)) {}

  // Answers a request with as many batches as the worker's speed is worth, with one where servers
  // complain of the worker. A worker that is slowed gets one every kSlowedLeaseMs; so does one of
  // which servers complain and that has had kMostInVain leases since its last batch counted. False:
  // there are none for it now. REQUIRES the worker in the roster.
  static constexpr int64_t kSlowedLeaseMs = 2000;
  static constexpr uint32_t kMostInVain = 3;
  bool GiveLease(const Request& request, const RunContext& run, const Roster& roster,
                 const Offences& offences, int64_t now_ms, Advisor* advisor, Outbox* out);
  // A batch of the worker counts.
  void NoteBatch(Incarnation worker);
  // Gives work to the workers that had to wait. Without it each would ask again, a round trip in
  // which it idles. If n wait and no more can be leased than at the last call they are looked at
  // after n / 100 ms only.
  void ServePending(const RunContext& run, const Roster& roster, const Offences& offences,
                    int64_t now_ms, Advisor* advisor, Outbox* out);
  // Drops a worker's pending requests: they were answered, or the worker repeats them.
  void Forget(Incarnation worker);
  // Slots stay where they are; workers and steps go on.
  void CancelChange(const Roster& roster, Outbox* out);

  Pass pass;
  PlanChange change;
  std::vector<Request> pending;  // in the order in which they came
  Pass::Supply served;           // when they were last looked at
  int64_t served_ms = 0;
  // The number of trained epochs after which the held-out samples were evaluated last.
  std::optional<uint32_t> held_out_measured;
  struct Watched {
    int64_t leased_ms = 0;  // when it was given its last lease
    uint32_t in_vain = 0;   // leases since its last batch that counted
  };
  // Workers that are slowed or complained of, by Offences::IdentityOf().
  std::map<uint32_t, Watched> watched;
};

}  // namespace dslide
