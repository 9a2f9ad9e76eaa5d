// Checks that a checkpoint is complete: every file unchanged, every row of the model present.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"

namespace dslide {

struct CheckpointHealth {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t rows = 0;
  uint64_t checksum = 0;            // see CheckpointShards::CheckContent; 0: not complete
  std::vector<std::string> damage;  // one line each, beginning with the file; empty: none
};

// Reads everything twice: the files' bytes, then the rows. The rows are not read if a file is
// damaged.
CheckpointHealth VerifyCheckpoint(const std::string& directory, const Manifest& manifest);

}  // namespace dslide
