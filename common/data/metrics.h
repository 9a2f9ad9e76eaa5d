// Ranking metrics of extreme classification, as pyxclib (xclib.evaluation.xc_metrics) defines them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/data/dataset.h"

namespace dslide {

constexpr int kMaxMetricK = 5;  // P@1 .. P@5

// As fractions in [0, 1], precision and nDCG as means over samples. Index k-1. All 0 without
// samples.
struct RankingMetrics {
  uint64_t samples = 0;
  double precision[kMaxMetricK] = {};             // P@k
  double ndcg[kMaxMetricK] = {};                  // nDCG@k
  double propensity_precision[kMaxMetricK] = {};  // PSP@k: sum over samples / best achievable sum
};

// Inverse propensities p_l^-1 = 1 + C (n_l + B)^-A with C = (ln N - 1)(B + 1)^A
// (Jain, Prabhu, Varma, KDD 2016, section 4). Returns [num_labels]. N >= 3 is needed for values of
// 1 and above; an empty `train` gives 1 for all.
std::vector<float> InversePropensities(const Dataset& train, double a = 0.55, double b = 1.5);

// Accumulates metrics over samples, in any order. Not thread-safe.
class RankingEvaluator {
 public:
  // `inverse_propensities` ([num_labels], may be empty: PSP is then 0) must outlive the evaluator.
  explicit RankingEvaluator(std::span<const float> inverse_propensities);

  // `ranked`: predicted labels, best first, at most the first kMaxMetricK count.
  // `labels`: the true ones, ascending. A sample without labels scores 0, as in pyxclib, and so
  // does each prediction that is missing. REQUIRES labels and true predictions < num_labels, and no
  // label predicted twice.
  void Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);

  RankingMetrics Result() const;

 private:
  void AddHits(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);
  void AddBestPropensities(std::span<const uint32_t> labels);
  double InversePropensity(uint32_t label) const;

  std::span<const float> inverse_propensities_;
  uint64_t samples_ = 0;
  double precision_[kMaxMetricK] = {};
  double ndcg_[kMaxMetricK] = {};
  double psp_numerator_[kMaxMetricK] = {};
  double psp_denominator_[kMaxMetricK] = {};
  std::vector<double> weights_;  // scratch of AddBestPropensities
};

}  // namespace dslide
