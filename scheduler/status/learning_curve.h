// The evaluations of a run, thinned out: however long the run, the status page stays small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/base/actions.h"

namespace dslide {

// Keeps every stride-th evaluation, evenly over the run, and the last one. When there are too many
// the stride doubles. metrics.jsonl has all of them.
class LearningCurve {
 public:
  static constexpr size_t kMaxPoints = 512;  // some 45 KB as JSON

  void Add(const EvaluationResult& evaluation);

  // At most kMaxPoints + 1, in order; the last one is the newest.
  std::vector<EvaluationResult> Points() const;
  double best_p_at_1() const { return best_; }  // of all evaluations, also those left out

 private:
  std::vector<EvaluationResult> points_;  // number 0, stride_, 2 stride_, ...
  std::optional<EvaluationResult> last_;  // unless it is the last of points_
  uint64_t added_ = 0;
  uint64_t stride_ = 1;
  double best_ = 0;
};

}  // namespace dslide
