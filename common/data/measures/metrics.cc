#include "common/data/measures/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "common/base/check.h"
#include "common/data/measures/label_counts.h"
#include "common/data/measures/ranking_terms.h"

namespace dslide {

InversePropensities::InversePropensities(const Dataset& train, double a, double b) : known_(true) {
  auto values = std::make_shared<std::vector<std::pair<uint32_t, float>>>();
  values_ = values;
  if (train.size() == 0) return;
  const double c = (std::log(static_cast<double>(train.size())) - 1.0) * std::pow(b + 1.0, a);
  const auto inverse = [&](uint64_t count) {
    return static_cast<float>(1.0 + c * std::pow(static_cast<double>(count) + b, -a));
  };
  others_ = inverse(0);
  for (const auto& [label, count] : CountLabels(train)) {
    values->emplace_back(label, inverse(count));
  }
}

InversePropensities::InversePropensities(std::vector<std::pair<uint32_t, float>> values,
                                         float others)
    : values_(std::make_shared<const std::vector<std::pair<uint32_t, float>>>(std::move(values))),
      others_(others),
      known_(true) {}

float InversePropensities::operator[](uint32_t label) const {
  DSLIDE_CHECK(known_);
  const auto found = std::lower_bound(
      values_->begin(), values_->end(), label,
      [](const std::pair<uint32_t, float>& value, uint32_t l) { return value.first < l; });
  return found != values_->end() && found->first == label ? found->second : others_;
}

void InversePropensities::Largest(std::span<const uint32_t> labels, size_t count,
                                  std::vector<double>* largest) const {
  largest->clear();
  for (const uint32_t label : labels) largest->push_back((*this)[label]);
  count = std::min(count, largest->size());
  std::partial_sort(largest->begin(), largest->begin() + static_cast<std::ptrdiff_t>(count),
                    largest->end(), std::greater<>());
  largest->resize(count);
}

RankingEvaluator::RankingEvaluator(InversePropensities inverse_propensities)
    : inverse_propensities_(std::move(inverse_propensities)) {}

double RankingEvaluator::Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels) {
  ++samples_;
  if (labels.empty()) ++without_labels_;
  const double ndcg = AddHits(ranked, labels);
  if (inverse_propensities_.known()) AddBestPropensities(labels);
  return ndcg;
}

double RankingEvaluator::AddHits(std::span<const uint32_t> ranked,
                                 std::span<const uint32_t> labels) {
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
  return ideal_gain > 0 ? gain / ideal_gain : 0;
}

// The best k labels in the sense of PSP@k are the true ones with the largest inverse propensities.
void RankingEvaluator::AddBestPropensities(std::span<const uint32_t> labels) {
  inverse_propensities_.Largest(labels, kMaxMetricK, &weights_);
  double best = 0;
  for (size_t rank = 0; rank < kMaxMetricK; ++rank) {
    if (rank < weights_.size()) best += weights_[rank];
    psp_denominator_[rank] += best;
  }
}

RankingMetrics RankingEvaluator::Result() const {
  RankingMetrics metrics;
  metrics.samples = samples_;
  metrics.without_labels = without_labels_;
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
