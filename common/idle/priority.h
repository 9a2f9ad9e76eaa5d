// Lowers what this process may take of CPU and disk.
#pragma once

#include <string>

#include "common/config/config.h"

namespace dslide {

// For the calling thread and the threads that it starts later: call it first of all.
//   idle   SCHED_IDLE, idle I/O class (ioprio_set), nice 19
//   low    nice 10, lowest best-effort I/O
// A process that leads its session lowers the session's autogroup as well: between sessions the
// kernel divides the CPU by autogroup, and SCHED_IDLE counts only within one.
// Returns what limits the effect, a line for the log; "" if nothing does.
std::string LowerPriority(Priority priority);

// Lets the process run on the last `cores` of its CPUs only; 0: all. Call it before any thread.
void LimitCores(uint32_t cores);

}  // namespace dslide
