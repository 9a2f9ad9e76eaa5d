// Whether a machine can start so many servers and workers, and whether that makes sense.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"

namespace dslide {

struct ProcessCount {
  uint32_t servers = 0;
  uint32_t workers = 0;
  uint32_t cores = 1;         // of the machine
  uint64_t memory_bytes = 0;  // of the machine
};

// A notice if there are more processes than CPUs, else "". Errors (kBadInput): the machine has too
// little memory for the processes, even without a model.
Result<std::string> JudgeProcesses(const ProcessCount& count);

}  // namespace dslide
