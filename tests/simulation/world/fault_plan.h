// The faults of a simulation, drawn from its seed.
//
// A fault happens at a time, or when its host reaches a point of its own work for the n-th time:
// the critical moments are short, and a random time seldom meets them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/world/sim_network.h"
#include "tests/simulation/world/sim_setup.h"

namespace dslide::sim {

// Points of a process's work.
enum class Point {
  kBeforeMessage,   // a message has arrived
  kAfterMessage,    // the message was handled and its effects were carried out
  kBeforeEffects,   // the message was handled, no effect was carried out
  kAfterLedger,     // the ledger has the entries, no message is sent
  kBeforeManifest,  // all shards are complete
  kAfterManifest,   // the manifest is on disk, the core does not know it
  kBeforeApply,     // executors: a request has arrived
  kAfterApply,      // executors: the request was carried out, no reply is sent
  kMidSnapshot,     // part of a snapshot's rows are written
  kMidRestore,      // part of the rows are loaded
  kBeforeSlotJob,   // executors: before a job on a slot that comes or goes
  kAfterSlotJob,    // executors: the job is done, no reply is sent
};
constexpr int kPoints = 12;

enum class FaultKind {
  kCrash,      // the process dies and is started again after `duration_us`
  kGone,       // the process dies for good
  kPause,      // SIGSTOP for `duration_us`
  kStop,       // SIGTERM; the process is started again after `duration_us`
  kClockJump,  // the host's clock goes forward by `duration_us`
  kBreak,      // all connections between two hosts break
  kPartition,  // no message passes from a host to another one for `duration_us`
  kDisk,       // a server's writes to its disk fail for `duration_us`
  kWeather,    // loss, duplicates and overtaking on all links for `duration_us`
  kAbsence,    // SIGTERM, or the process dies; nobody starts it again for `duration_us`
};

constexpr size_t kFaultKinds = 10;

struct Fault {
  FaultKind kind = FaultKind::kCrash;
  uint32_t host = 0;   // as numbered by HostNumbers
  uint32_t other = 0;  // kBreak, kPartition
  int64_t at_us = 0;   // earliest time
  int64_t duration_us = 0;
  bool kept = false;  // kPartition: messages arrive after it; kCrash: the machine crashes as well,
                      // and entries that were not synced are lost; kAbsence: SIGTERM
  Weather weather;    // kWeather
  // If set, the fault happens when its host reaches this point for the `count`-th time from `at_us`
  // on.
  std::optional<Point> point;
  std::string message;  // kBeforeMessage and kAfterMessage: kind of the message; empty: any
  uint32_t count = 1;

  std::string Describe() const;
};

struct FaultPlan {
  std::vector<Fault> faults;
  int64_t end_us = 0;  // no fault is active from here on
};

// Numbers of the hosts: 0 is the scheduler, then come the servers, then the workers.
struct HostNumbers {
  explicit HostNumbers(const SimSetup& setup) : servers(setup.servers), workers(setup.workers) {}
  uint32_t servers, workers;
  uint32_t count() const { return 1 + servers + workers; }
  bool IsServer(uint32_t host) const { return host >= 1 && host <= servers; }
  bool IsWorker(uint32_t host) const { return host > servers; }
};

FaultPlan DrawFaults(const SimSetup& setup, uint64_t seed);

// All workers leave again and again, and come back after a minute to `longest_us`, as volunteers
// do. Other faults happen around each return.
FaultPlan DrawAbsences(const SimSetup& setup, uint64_t seed, int64_t longest_us);

}  // namespace dslide::sim
