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
  uint64_t memory_bytes = 0;  // the same
};

// A notice about processes beyond the CPUs; "": none. Errors (kBadInput): the machine has no memory
// for them, even without a model.
Result<std::string> JudgeProcesses(const ProcessCount& count);

}  // namespace dslide
