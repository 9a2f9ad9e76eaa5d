// The planner's search: brings every owner's load to a level. Internal to planner.cc.
#pragma once

#include <cstdint>
#include <limits>

#include "common/balance/assignment.h"

namespace dslide {

struct ReliefOptions {
  double level = 1;             // relative load that no owner should exceed
  double mean = 0;              // load over capacity that it is relative to
  bool tight = false;           // a slot goes where it fits best, instead of where most room is
  bool stop_when_stuck = true;  // at the first owner that cannot be relieved
  uint64_t budget = std::numeric_limits<uint64_t>::max();  // bytes to send
};

struct ReliefOutcome {
  bool reached = false;         // no owner is above the level
  uint64_t cheapest_bytes = 0;  // of a move that the budget forbade; 0: none
};

// Moves slots, and exchanges them where no single move helps. Every step lowers the sum of what the
// owners have above the level, and never raises the largest relative load.
ReliefOutcome Relieve(Assignment& assignment, const ReliefOptions& options);

// Takes moves back, and exchanges them for ones of fewer bytes, where the level is kept.
void SaveBytes(Assignment& assignment, const ReliefOptions& options);

// For a few slots (an executor's, a small cluster's), where Relieve() got stuck: places all of them
// anew, the hottest first and at home where that is possible, by a search of bounded length. False:
// nothing was found, and nothing is changed.
bool Repack(Assignment& assignment, const ReliefOptions& options);

}  // namespace dslide
