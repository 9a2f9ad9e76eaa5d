// Decides from measurements what each node should do: the batches of a lease, the batches in flight
// of a worker, each server's share of the slots, and which workers are stragglers.
//
// DeDLOC (Diskin et al., "Distributed Deep Learning in Open Collaborations", NeurIPS 2021, section
// 3.2) gives each peer of a volunteer run its part of communication and of computation by a linear
// program that maximises the rate at which steps are done. The same program here:
//
//   maximise    sum over workers of r_w             (batches per second)
//   subject to  r_w <= link_w                       bits_per_second over bits of a batch
//               sum of r_w * x_s <= capacity_s      for every server s with share x_s of a batch's
//               sum of x_s = 1                      work
//
// DeDLOC's roles differ: its peers compute gradients and average all parameters, so each splits its
// bandwidth; here parameters stay with servers and workers send activations. So the program has a
// closed solution: x_s is proportional to capacity_s (the planner comes as near as slots allow),
// and the rate that the servers can then sustain is shared among the workers up to what their links
// carry, at the same level for all (max-min fairness). By Little's law a worker needs rate *
// latency batches in flight for its rate; more only queue at servers and make gradients stale.
//
// Pure; used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/config/limits.h"

namespace dslide {

struct WorkerMeasure {
  std::string name;  // as users see it; unique
  uint32_t cores = 1;
  double batches_per_second = 0;  // smoothed (SpeedMeter); 0: not known
  uint32_t round_trip_us = 0;     // to the farthest server; 0: not known
  uint64_t bits_per_second = 0;   // of the slowest link to a server; 0: not known
  double bytes_per_batch = 0;     // sent and received, all servers together; 0: not known
  double lease_age_s = 0;         // of its oldest lease
  uint32_t lease_size = 0;        // batches of that lease when it was granted; 0: no lease
};

struct ServerMeasure {
  std::string name;
  double capacity = 1;  // SlotLoads::Capacity
  bool leaving = false;
};

struct RunMeasure {
  uint32_t unit_batches = 1;     // batches of a unit, which bounds a lease
  uint64_t batches_left = 0;     // of the pass, leased or not
  double seconds_per_batch = 0;  // SlotLoads::SecondsPerBatch; 0: not known
};

struct WorkerDecision {
  std::string name;
  uint32_t lease_batches = 1;  // [1, unit_batches]
  uint32_t in_flight_cap = 0;  // 0: none, else >= 1
  bool straggler = false;
  std::string reason = {};  // "worker-2: 3 batches per lease (1.1 batches/s), ..."
  bool log = false;         // worth a log line: see kChange
};

struct ServerDecision {
  std::string name;
  double share = 0;  // of all slots' load; [0, 1]
  std::string reason = {};
  bool log = false;
};

struct Decisions {
  std::vector<WorkerDecision> workers;  // [as given]
  std::vector<ServerDecision> servers;  // [as given]
};

class Strategy {
 public:
  // A lease is this many seconds of its worker's work; shorter when few batches are left, so that
  // all workers end together (guided self-scheduling: Polychronopoulos, Kuck, IEEE ToC C-36(12),
  // 1987).
  static constexpr double kLeaseSeconds = 3;
  static constexpr uint32_t kFirstLease = 2;  // batches, for a worker whose speed is not known yet
  // Requests of a batch to servers, one after the other.
  static constexpr double kRoundTrips = 4;
  // Batches at servers over batches in work there: some always wait.
  static constexpr double kQueue = 2;
  static constexpr double kSlack = 1.5;  // factor of the batches in flight, for measuring errors
  static constexpr uint32_t kFewestInFlight = 2;
  static constexpr uint32_t kMostInFlight = kMostBatchesInFlight;
  static constexpr double kSlowest = 1.0 / 3;  // of the median speed of a core; slower: a straggler
  static constexpr double kLatest = 3;  // times the expected time of a lease; older: a straggler
  static constexpr double kLeastExpectedS = 1;  // lower bound of that time
  // A decision is worth a line in the log if it is the node's first, if a number changed by more
  // than this share (and by more than 1), or if a worker became or ceased to be a straggler.
  static constexpr double kChange = 0.25;

  // Call every few seconds, and when a node joins or leaves. Forgets nodes that are not given.
  Decisions Decide(const std::vector<WorkerMeasure>& workers,
                   const std::vector<ServerMeasure>& servers, const RunMeasure& run);

 private:
  // Of all workers.
  struct Peers {
    double median_speed;  // of a core; 0: not known
    double all_speeds;    // their sum
  };
  std::vector<ServerDecision> DecideServers(const std::vector<ServerMeasure>& servers);
  WorkerDecision DecideWorker(const WorkerMeasure& worker, const RunMeasure& run,
                              const Peers& peers, uint32_t in_flight_cap);

  // The figures last logged.
  struct Logged {
    uint32_t lease_batches;
    uint32_t in_flight_cap;
    bool straggler;
  };
  std::map<std::string, Logged> workers_;
  std::map<std::string, double> servers_;  // shares
};

}  // namespace dslide
