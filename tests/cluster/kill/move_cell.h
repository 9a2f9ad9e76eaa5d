// One cell of the kill matrix in which slots move between servers: the reason of the move, the
// victim, and the place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "tests/cluster/kill/verdict.h"

namespace dslide {

struct MoveCell {
  enum class Why {
    kJoin,   // one more server is started
    kDrain,  // dslide run drain
    kTerm,   // SIGTERM to a server
  };
  enum class Victim { kSource, kTarget, kScheduler, kNobody };

  Why why = Why::kJoin;
  Victim victim = Victim::kNobody;
  size_t point = 0;  // index of the row
  bool synchronous = false;

  std::string Name() const;  // e.g. "move-join.before-plan-switch.target.sync", "move-drain.async"
};

// Joins with all three victims at 9 points; leaving servers with one victim at each point; all
// reasons of a move without a kill, asynchronous and synchronous. Every second kill is in
// synchronous training (with `flip` the others).
std::vector<MoveCell> AllMoveCells(bool flip);

// Runs a cell in `directory` and checks that slots move, that training ends, that every sample
// counts once, and that the model is as good as `expected`. Errors as in verdict.h.
Status RunMoveCell(const MoveCell& cell, uint64_t seed, const Undisturbed& expected,
                   const std::string& directory);

}  // namespace dslide
