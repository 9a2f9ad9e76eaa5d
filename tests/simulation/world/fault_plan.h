// What goes wrong in a simulation, drawn from its seed.
//
// A fault happens at a time, or when its host reaches a point of its own work for the n-th time:
// the instants that matter are short, and a time drawn at random seldom meets them.
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
  kBeforeMessage,   // a message has come
  kAfterMessage,    // and was handled: its effects are under way
  kBeforeEffects,   // handled, and nothing of the effects is carried out
  kAfterLedger,     // the ledger has the entries, nothing is sent
  kBeforeManifest,  // all shards are there
  kAfterManifest,   // the manifest is on disk, the core does not know
  kBeforeApply,     // executors: a gradient has come
  kAfterApply,      // and was applied; nobody is told
  kMidSnapshot,     // part of a snapshot's rows are written
  kMidRestore,      // part of the rows are loaded
  kBeforeSlotJob,   // executors: a slot comes or goes
  kAfterSlotJob,    // it has; nobody is told
};
constexpr int kPoints = 12;

enum class FaultKind {
  kCrash,      // the process dies and is started again after `duration_us`
  kGone,       // it dies for good
  kPause,      // SIGSTOP for `duration_us`
  kStop,       // SIGTERM, and started again after `duration_us`
  kClockJump,  // the host's clock goes forward by `duration_us`
  kBreak,      // all connections between two hosts break
  kPartition,  // nothing passes from a host to another one for `duration_us`
  kDisk,       // what a server writes to its disk fails for `duration_us`
  kWeather,    // loss, doubles and overtaking on all links for `duration_us`
};

constexpr size_t kFaultKinds = 9;

struct Fault {
  FaultKind kind = FaultKind::kCrash;
  uint32_t host = 0;   // as numbered by HostNumbers
  uint32_t other = 0;  // kBreak, kPartition
  int64_t at_us = 0;   // not before
  int64_t duration_us = 0;
  bool kept = false;  // kPartition: messages arrive after it; kCrash: the machine dies as well, and
                      // what was not synced is lost
  Weather weather;    // kWeather
  // Happens when its host reaches this point `count` times from `at_us` on.
  std::optional<Point> point;
  std::string message;  // kBeforeMessage and kAfterMessage: of this kind; empty: of any
  uint32_t count = 1;

  std::string Describe() const;
};

struct FaultPlan {
  std::vector<Fault> faults;
  int64_t end_us = 0;  // all is well from here on
};

// Hosts are numbered: the scheduler 0, servers from 1 on, workers behind them.
struct HostNumbers {
  explicit HostNumbers(const SimSetup& setup) : servers(setup.servers), workers(setup.workers) {}
  uint32_t servers, workers;
  uint32_t count() const { return 1 + servers + workers; }
  bool IsServer(uint32_t host) const { return host >= 1 && host <= servers; }
  bool IsWorker(uint32_t host) const { return host > servers; }
};

FaultPlan DrawFaults(const SimSetup& setup, uint64_t seed);

}  // namespace dslide::sim
