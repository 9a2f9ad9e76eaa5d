// What all passes of this scheduler's life come to, also what a recovery took back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/base/actions.h"
#include "scheduler/pass/training_stats.h"

namespace dslide {

struct RunTotals {
  TrainingStats work;
  TrainingStats work_before;  // those at the last evaluation of the held-out samples
  uint64_t lease_bytes = 0;   // of training leases, on the wire
  std::optional<EvaluationResult> last_evaluation;  // on test samples
  std::optional<EvaluationResult> last_held_out;
  std::vector<std::string> choices;  // of settings, a line each with its figures

  // What a message of the scheduler took on the wire.
  void CountSent(const Body& body, size_t bytes) {
    const auto* grant = std::get_if<LeaseGrant>(&body);
    if (grant != nullptr && grant->kind == LeaseKind::kTrain) lease_bytes += bytes;
  }
  double LeaseBytesPerSample() const { return work.PerSample(static_cast<double>(lease_bytes)); }
};

}  // namespace dslide
