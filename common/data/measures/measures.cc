#include "common/data/measures/measures.h"

#include <algorithm>
#include <utility>

#include "common/data/measures/ranking_terms.h"

namespace dslide {

MeasureAccumulator::MeasureAccumulator(std::vector<uint32_t> cutoffs,
                                       InversePropensities inverse_propensities,
                                       FrequencyBands bands)
    : inverse_propensities_(std::move(inverse_propensities)),
      bands_(std::move(bands)),
      tallies_(cutoffs) {
  for (const uint32_t k : cutoffs) sums_.push_back({.k = k});
  for (size_t rank = 0; rank < cutoffs.back(); ++rank) discounts_.push_back(Discount(rank));
}

void MeasureAccumulator::Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels) {
  ++samples_;
  if (labels.empty()) ++samples_without_labels_;
  tallies_.Add(ranked, labels);
  if (labels.empty()) return;  // it scores 0
  AddHits(ranked, labels);
  if (inverse_propensities_.known()) AddWeightedHits(ranked, labels);
}

void MeasureAccumulator::AddHits(std::span<const uint32_t> ranked,
                                 std::span<const uint32_t> labels) {
  const auto true_labels = static_cast<double>(labels.size());
  double hits = 0, gain = 0, ideal = 0, reciprocal_rank = 0;
  size_t rank = 0;
  for (Sums& sums : sums_) {
    for (; rank < sums.k; ++rank) {
      if (rank < labels.size()) ideal += discounts_[rank];
      if (rank >= ranked.size() || !Contains(labels, ranked[rank])) continue;
      hits += 1;
      gain += discounts_[rank];
      if (reciprocal_rank == 0) reciprocal_rank = 1.0 / static_cast<double>(rank + 1);
    }
    const auto predictions = static_cast<double>(std::min<size_t>(sums.k, ranked.size()));
    sums.precision += hits / sums.k;
    sums.ndcg += gain / ideal;
    sums.recall += hits / true_labels;
    sums.f1 += 2 * hits / (predictions + true_labels);
    sums.hit_rate += hits > 0 ? 1 : 0;
    sums.reciprocal_rank += reciprocal_rank;
  }
}

// The best ranking has the true labels in descending order of their inverse propensities.
void MeasureAccumulator::AddWeightedHits(std::span<const uint32_t> ranked,
                                         std::span<const uint32_t> labels) {
  inverse_propensities_.Largest(labels, discounts_.size(), &largest_);
  double weight = 0, gain = 0, best_weight = 0, best_gain = 0, ideal = 0;
  size_t rank = 0;
  for (Sums& sums : sums_) {
    for (; rank < sums.k; ++rank) {
      if (rank < largest_.size()) {
        ideal += discounts_[rank];
        best_weight += largest_[rank];
        best_gain += largest_[rank] * discounts_[rank];
      }
      if (rank >= ranked.size() || !Contains(labels, ranked[rank])) continue;
      const double here = inverse_propensities_[ranked[rank]];
      weight += here;
      gain += here * discounts_[rank];
    }
    sums.psp += weight;
    sums.best_psp += best_weight;
    sums.psndcg += gain / ideal;
    sums.best_psndcg += best_gain / ideal;
  }
}

Measures MeasureAccumulator::Result() const {
  Measures measures;
  measures.samples = samples_;
  measures.samples_without_labels = samples_without_labels_;
  measures.labels_in_data = tallies_.labels_in_data();
  measures.with_propensities = inverse_propensities_.known();
  if (bands_.known()) measures.bands = tallies_.ForBands(bands_);
  const std::vector<LabelMeasures> of_labels = tallies_.Measures();
  const auto samples = static_cast<double>(samples_);
  for (size_t c = 0; c < sums_.size(); ++c) {
    const Sums& s = sums_[c];
    measures.at.push_back({.k = s.k,
                           .precision = Ratio(s.precision, samples),
                           .ndcg = Ratio(s.ndcg, samples),
                           .recall = Ratio(s.recall, samples),
                           .f1 = Ratio(s.f1, samples),
                           .hit_rate = Ratio(s.hit_rate, samples),
                           .reciprocal_rank = Ratio(s.reciprocal_rank, samples),
                           .propensity_precision = Ratio(s.psp, s.best_psp),
                           .propensity_ndcg = Ratio(s.psndcg, s.best_psndcg),
                           .over_labels = of_labels[c]});
  }
  return measures;
}

}  // namespace dslide
