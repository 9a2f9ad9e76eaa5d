// What becomes of the plan's seats: whether the pass may go on, who fills vacant seats, and when
// the run gives up. A pure policy: the core carries its decision out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "scheduler/plan/cluster.h"
#include "scheduler/plan/placement.h"

namespace dslide {

// The run, as it is now. The references have to outlive the call only.
struct SeatSituation {
  const Cluster& cluster;
  const Config& config;
  const Manifest* checkpoint = nullptr;  // the newest complete one; null: none
  int64_t started_ms = 0;                // of the scheduler
  bool in_pass = false;
  bool stopping = false;  // the run ends with its next checkpoint
  bool writing = false;   // a server may be writing a checkpoint
};

struct SeatDecision {
  enum class Kind {
    kWait,
    kGo,           // all seats have servers that are ready: the pass goes on
    kLeaveOut,     // leave the servers out that are not ready, for the reason `why`
    kBegin,        // begin a generation with `servers` and `slot_owner`
    kGoOnWithout,  // lost servers had no slots: the next plan is without the seats `vacant`
    kStop,         // end the run that is stopping: there will be no other checkpoint
    kNotEnough,    // end the run: not enough servers have joined
    kNotReplaced,  // end the run: nobody took the place of a lost server
  };
  Kind kind = Kind::kWait;
  std::string why;
  std::vector<SeatedServer> servers;
  std::vector<uint16_t> slot_owner;
  std::vector<size_t> vacant;
  // Bytes of memory that the servers lack for all slots; none: not reckoned.
  std::optional<uint64_t> lacking_bytes;
};

SeatDecision DecideSeats(const SeatSituation& now, int64_t now_ms);

}  // namespace dslide
