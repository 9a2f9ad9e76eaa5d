#include "common/data/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/base/check.h"

namespace dslide {
namespace {

// What a hit at 0-based `rank` adds to the discounted cumulative gain.
double Discount(size_t rank) { return 1.0 / std::log2(static_cast<double>(rank) + 2.0); }

bool Contains(std::span<const uint32_t> sorted, uint32_t id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

}  // namespace

namespace {

// Calls take(label, count) for each label that occurs, ascending.
template <typename Take>
void CountLabels(const Dataset& train, const Take& take) {
  std::vector<uint32_t> labels;
  for (size_t i = 0; i < train.size(); ++i) {
    labels.insert(labels.end(), train[i].labels.begin(), train[i].labels.end());
  }
  std::sort(labels.begin(), labels.end());
  for (auto first = labels.begin(); first != labels.end();) {
    const auto last = std::upper_bound(first, labels.end(), *first);
    take(*first, static_cast<uint64_t>(last - first));
    first = last;
  }
}

}  // namespace

double LabelRepeats(const Dataset& train) {
  double sum = 0, squares = 0;
  CountLabels(train, [&](uint32_t, uint64_t count) {
    const auto n = static_cast<double>(count);
    sum += n;
    squares += n * n;
  });
  return sum == 0 ? 0 : squares / sum;
}

InversePropensities::InversePropensities(const Dataset& train, double a, double b) : known_(true) {
  if (train.size() == 0) return;
  const double c = (std::log(static_cast<double>(train.size())) - 1.0) * std::pow(b + 1.0, a);
  const auto inverse = [&](uint64_t count) {
    return static_cast<float>(1.0 + c * std::pow(static_cast<double>(count) + b, -a));
  };
  others_ = inverse(0);
  CountLabels(train,
              [&](uint32_t label, uint64_t count) { values_.emplace_back(label, inverse(count)); });
}

InversePropensities::InversePropensities(std::vector<std::pair<uint32_t, float>> values,
                                         float others)
    : values_(std::move(values)), others_(others), known_(true) {}

float InversePropensities::operator[](uint32_t label) const {
  DSLIDE_CHECK(known_);
  const auto found = std::lower_bound(
      values_.begin(), values_.end(), label,
      [](const std::pair<uint32_t, float>& value, uint32_t l) { return value.first < l; });
  return found != values_.end() && found->first == label ? found->second : others_;
}

RankingEvaluator::RankingEvaluator(InversePropensities inverse_propensities)
    : inverse_propensities_(std::move(inverse_propensities)) {}

void RankingEvaluator::Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels) {
  ++samples_;
  AddHits(ranked, labels);
  if (inverse_propensities_.known()) AddBestPropensities(labels);
}

void RankingEvaluator::AddHits(std::span<const uint32_t> ranked, std::span<const uint32_t> labels) {
  double hits = 0;
  double gain = 0;
  double ideal_gain = 0;
  double propensity = 0;
  for (size_t rank = 0; rank < kMaxMetricK; ++rank) {
    if (rank < labels.size()) ideal_gain += Discount(rank);
    if (rank < ranked.size() && Contains(labels, ranked[rank])) {
      hits += 1;
      gain += Discount(rank);
      if (inverse_propensities_.known()) propensity += inverse_propensities_[ranked[rank]];
    }
    precision_[rank] += hits / static_cast<double>(rank + 1);
    if (ideal_gain > 0) ndcg_[rank] += gain / ideal_gain;
    psp_numerator_[rank] += propensity;
  }
}

// The best k labels in the sense of PSP@k are the true ones with the largest inverse propensities.
void RankingEvaluator::AddBestPropensities(std::span<const uint32_t> labels) {
  weights_.clear();
  for (const uint32_t label : labels) weights_.push_back(inverse_propensities_[label]);
  const size_t count = std::min<size_t>(kMaxMetricK, weights_.size());
  std::partial_sort(weights_.begin(), weights_.begin() + static_cast<std::ptrdiff_t>(count),
                    weights_.end(), std::greater<>());
  double best = 0;
  for (size_t rank = 0; rank < kMaxMetricK; ++rank) {
    if (rank < count) best += weights_[rank];
    psp_denominator_[rank] += best;
  }
}

RankingMetrics RankingEvaluator::Result() const {
  RankingMetrics metrics;
  metrics.samples = samples_;
  if (samples_ == 0) return metrics;
  const auto samples = static_cast<double>(samples_);
  for (int i = 0; i < kMaxMetricK; ++i) {
    metrics.precision[i] = precision_[i] / samples;
    metrics.ndcg[i] = ndcg_[i] / samples;
    // The factors 1/k and 1/samples of numerator and denominator cancel.
    if (psp_denominator_[i] > 0) {
      metrics.propensity_precision[i] = psp_numerator_[i] / psp_denominator_[i];
    }
  }
  return metrics;
}

}  // namespace dslide
