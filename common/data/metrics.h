// Ranking metrics of extreme classification, as pyxclib (xclib.evaluation.xc_metrics) defines them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/data/dataset.h"

namespace dslide {

constexpr int kMaxMetricK = 5;  // P@1 .. P@5

// Means over samples, as fractions in [0, 1] (PSP may be above). Index k-1.
struct RankingMetrics {
  uint64_t samples = 0;
  double precision[kMaxMetricK] = {};             // P@k
  double ndcg[kMaxMetricK] = {};                  // nDCG@k
  double propensity_precision[kMaxMetricK] = {};  // PSP@k, normalised by the best achievable
};

// Inverse propensities p_l^-1 = 1 + C (n_l + B)^-A with C = (ln N - 1)(B + 1)^A
// (Jain, Prabhu, Varma, KDD 2016, section 4). Returns [num_labels].
std::vector<float> InversePropensities(const Dataset& train, double a = 0.55, double b = 1.5);

// Accumulates metrics over samples, in any order. Not thread-safe.
class RankingEvaluator {
 public:
  // `inverse_propensities` ([num_labels], may be empty: PSP is then 0) must outlive the evaluator.
  explicit RankingEvaluator(std::span<const float> inverse_propensities);

  // `ranked`: predicted labels, best first, at most the first kMaxMetricK count.
  // `labels`: the true ones, ascending. A sample without labels scores 0, as in pyxclib.
  void Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);

  RankingMetrics Result() const;

 private:
  std::span<const float> inverse_propensities_;
  uint64_t samples_ = 0;
  double precision_[kMaxMetricK] = {};
  double ndcg_[kMaxMetricK] = {};
  double psp_numerator_[kMaxMetricK] = {};
  double psp_denominator_[kMaxMetricK] = {};
};

}  // namespace dslide
