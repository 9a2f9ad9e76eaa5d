#include "scheduler/pass/loss_outliers.h"

#include <algorithm>
#include <cmath>

namespace dslide {
namespace {

// REQUIRES values.
double UpperMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

LossOutliers::LossOutliers(uint32_t labels)
    : least_(kShare * std::log(static_cast<double>(labels))) {}

double LossOutliers::Losses::StandardError() const {
  const auto n = static_cast<double>(count);
  const double variance = std::max(0.0, squares / n - mean() * mean());
  return std::sqrt(variance / (n - 1));
}

std::vector<LossOutliers::Outlier> LossOutliers::Add(const std::string& contributor, double loss) {
  Losses& losses = window_[contributor];
  losses.count++;
  losses.sum += loss;
  losses.squares += loss * loss;
  if (++batches_ < std::max(kLeastWindow, kWindowOfEach * window_.size())) return {};
  std::vector<Outlier> outliers = Judge();
  window_.clear();
  batches_ = 0;
  return outliers;
}

std::vector<LossOutliers::Outlier> LossOutliers::Judge() const {
  std::vector<Outlier> outliers;
  for (const auto& [name, losses] : window_) {
    if (losses.count < kLeastJudged) continue;
    std::vector<double> others;
    for (const auto& [other, of_other] : window_) {
      if (other != name && of_other.count >= kLeastJudged) others.push_back(of_other.mean());
    }
    if (others.size() + 1 < kLeastContributors) continue;
    const double median = UpperMedian(std::move(others));
    const double least = std::max(least_, kErrors * losses.StandardError());
    if (losses.mean() - median > least) outliers.push_back({name, losses.mean(), median});
  }
  return outliers;
}

}  // namespace dslide
