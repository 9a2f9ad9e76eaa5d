#include "scheduler/pass/held_out_curve.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace dslide {

void HeldOutCurve::Add(uint32_t epochs, std::vector<float> ndcg) {
  std::erase_if(points_, [&](const Point& point) { return point.epochs >= epochs; });
  points_.push_back({epochs, std::move(ndcg)});
}

bool HeldOutCurve::Has(uint32_t epochs) const {
  return std::ranges::count(points_, epochs, &Point::epochs) > 0;
}

double HeldOutCurve::Mean(const std::vector<float>& ndcg) {
  return std::accumulate(ndcg.begin(), ndcg.end(), 0.0) /
         static_cast<double>(std::max<size_t>(1, ndcg.size()));
}

double HeldOutCurve::LastGain() const {
  DSLIDE_CHECK(points_.size() > 1);
  const double was = before();
  return was > 0 ? last() / was - 1 : last() > 0 ? 1 : 0;
}

}  // namespace dslide
