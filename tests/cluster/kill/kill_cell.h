// One cell of the kill matrix: a signal, its victim, and the place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "tests/cluster/kill/verdict.h"

namespace dslide {

enum class Victim { kScheduler, kServer, kWorker };

struct Cell {
  int signal = 0;  // SIGKILL, SIGTERM or SIGSTOP
  Victim victim = Victim::kServer;
  size_t point = 0;  // index of the row
  bool synchronous = false;

  std::string Name() const;  // e.g. "before-reply.kill.worker.sync"
};

// All cells: 3 signals x 3 victims x 11 points, every second one in synchronous training (with
// `flip` the others).
std::vector<Cell> AllCells(bool flip);

// Runs a cell in `directory` and checks that training ends, that every sample counts once, and that
// the model is as good as `expected` (in synchronous training: the same). Errors as in verdict.h.
Status RunCell(const Cell& cell, uint64_t seed, const Undisturbed& expected,
               const std::string& directory);

}  // namespace dslide
