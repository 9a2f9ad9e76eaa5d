#include "scheduler/status/learning_curve.h"

#include <algorithm>

namespace dslide {

void LearningCurve::Add(const EvaluationResult& evaluation) {
  best_ = std::max(best_, evaluation.metrics.precision[0]);
  const uint64_t number = added_++;
  if (number % stride_ == 0 && points_.size() == kMaxPoints) {
    for (size_t i = 0; i < points_.size() / 2; ++i) points_[i] = points_[2 * i];
    points_.resize(points_.size() / 2);
    stride_ *= 2;
  }
  last_.reset();
  if (number % stride_ == 0) {
    points_.push_back(evaluation);
  } else {
    last_ = evaluation;
  }
}

std::vector<EvaluationResult> LearningCurve::Points() const {
  std::vector<EvaluationResult> points = points_;
  if (last_) points.push_back(*last_);
  return points;
}

}  // namespace dslide
