// One cell of the kill matrix in which slots move from server to server: why they move, who is
// killed, and where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "tests/cluster/verdict.h"

namespace dslide {

struct MoveCell {
  enum class Why {
    kJoin,   // a server more is started
    kDrain,  // dslide drain
    kTerm,   // SIGTERM to a server
  };
  enum class Victim { kSource, kTarget, kScheduler, kNobody };

  Why why = Why::kJoin;
  Victim victim = Victim::kNobody;
  size_t point = 0;  // index of the row
  bool synchronous = false;

  std::string Name() const;  // e.g. "move-join.before-plan-switch.target.sync", "move-drain.async"
};

// Joins with all three victims at 9 points; servers that leave with one victim at each; all ways to
// move slots without a kill, asynchronous and synchronous. Every second kill is in synchronous
// training; the other way round if `flip`.
std::vector<MoveCell> AllMoveCells(bool flip);

// Runs a cell in `directory`: that slots move, that training ends, that every sample counts once,
// that the model is as good as `expected`. Errors as in verdict.h.
Status RunMoveCell(const MoveCell& cell, uint64_t seed, const Undisturbed& expected,
                   const std::string& directory);

}  // namespace dslide
