// Whether a checkpoint is whole: every file as it was written, every row of the model there.
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
  uint64_t checksum =
      0;  // of the content, see CheckpointShards::CheckContent; 0 if it is not whole
  std::vector<std::string> damage;  // one line each, beginning with the file; empty: it is whole
};

// Reads everything twice: the files' bytes, then the rows. Rows are left out if files are damaged.
CheckpointHealth VerifyCheckpoint(const std::string& directory, const Manifest& manifest);

}  // namespace dslide
