#include "scheduler/status/learning_curve.h"

#include <doctest/doctest.h>

namespace dslide::learning_curve_test {
namespace {

EvaluationResult After(uint32_t epochs, double p_at_1) {
  EvaluationResult evaluation;
  evaluation.epoch = epochs;
  evaluation.metrics.precision[0] = p_at_1;
  return evaluation;
}

TEST_CASE("learning curve: a short one is kept whole") {
  LearningCurve curve;
  CHECK(curve.Points().empty());
  for (uint32_t epoch = 0; epoch < LearningCurve::kMaxPoints; ++epoch) curve.Add(After(epoch, 0.1));
  const auto points = curve.Points();
  REQUIRE(points.size() == LearningCurve::kMaxPoints);
  for (uint32_t epoch = 0; epoch < points.size(); ++epoch) CHECK(points[epoch].epoch == epoch);
}

TEST_CASE("learning curve: a long one is even, bounded, and ends with the newest") {
  LearningCurve curve;
  for (uint32_t epoch = 0; epoch < 25'000; ++epoch) {
    curve.Add(After(epoch, epoch == 77 ? 0.9 : 0.5));
    const auto points = curve.Points();
    REQUIRE(points.size() <= LearningCurve::kMaxPoints + 1);
    REQUIRE(points.back().epoch == epoch);
  }
  const auto points = curve.Points();
  CHECK(points.size() >= LearningCurve::kMaxPoints / 2);
  CHECK(points[0].epoch == 0);
  const uint32_t stride = points[1].epoch;
  for (size_t i = 0; i + 1 < points.size(); ++i) CHECK(points[i].epoch == stride * i);
  CHECK(curve.best_p_at_1() == 0.9);
}

}  // namespace
}  // namespace dslide::learning_curve_test
