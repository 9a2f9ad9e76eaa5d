// The planner's search: lowers every owner's load to a level. Internal to planner.cc.
#pragma once

#include <cstdint>
#include <limits>

#include "common/balance/assignment.h"

namespace dslide {

struct ReliefOptions {
  double level = 1;             // relative load that no owner should exceed
  double mean = 0;              // load over capacity that `level` is relative to
  bool tight = false;           // slots go where they fit best, instead of where most room is
  bool stop_when_stuck = true;  // at the first owner that cannot be relieved
  uint64_t budget = std::numeric_limits<uint64_t>::max();  // bytes to send
};

struct ReliefOutcome {
  bool reached = false;         // no owner is above the level
  uint64_t cheapest_bytes = 0;  // of the moves that the budget forbade; 0: none
};

// Moves slots, and exchanges them where no single move helps. Every step lowers the owners' total
// load above the level, and never raises the largest relative load.
ReliefOutcome Relieve(Assignment& assignment, const ReliefOptions& options);

// Undoes moves, or replaces them by moves of fewer bytes, where the level still holds.
void SaveBytes(Assignment& assignment, const ReliefOptions& options);

// For few slots (an executor's, a small cluster's) after Relieve() got stuck: places all slots
// again, the hottest first and at home where possible, by a search of bounded length. False:
// nothing found, nothing changed.
bool Repack(Assignment& assignment, const ReliefOptions& options);

}  // namespace dslide
