// What counts of a run: what a checkpoint holds, and what a pass goes on from.
#pragma once

#include <cstdint>
#include <vector>

#include "common/checkpoint/manifest.h"

namespace dslide {

struct CountedWork {
  uint32_t epoch = 0;  // in progress, or epochs trained while an evaluation runs
  uint64_t batches = 0;
  uint64_t samples = 0;
  std::vector<DoneBatch> done;  // of `epoch`
};

}  // namespace dslide
