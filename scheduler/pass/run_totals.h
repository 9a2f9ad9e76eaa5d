// What all passes of this scheduler's life come to, also what a recovery took back.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/base/effects.h"
#include "scheduler/pass/training_stats.h"

namespace dslide {

struct RunTotals {
  TrainingStats work;
  uint64_t lease_bytes = 0;  // of training leases, on the wire
  std::optional<EvaluationResult> last_evaluation;

  double LeaseBytesPerSample() const { return work.PerSample(static_cast<double>(lease_bytes)); }
};

}  // namespace dslide
