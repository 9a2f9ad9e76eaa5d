// Ranking metrics of extreme classification, as pyxclib (xclib.evaluation.xc_metrics) defines them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/data/dataset.h"

namespace dslide {

constexpr int kMaxMetricK = 5;  // P@1 .. P@5

// As fractions in [0, 1], precision and nDCG as means over samples. Index k-1. All 0 without
// samples.
struct RankingMetrics {
  uint64_t samples = 0;
  uint64_t without_labels = 0;                    // samples without labels, which score 0
  double precision[kMaxMetricK] = {};             // P@k
  double ndcg[kMaxMetricK] = {};                  // nDCG@k
  double propensity_precision[kMaxMetricK] = {};  // PSP@k: sum over samples / best achievable sum
};

// Inverse propensities p_l^-1 = 1 + C (n_l + B)^-A with C = (ln N - 1)(B + 1)^A of labels that
// occur n_l times in N samples (Jain, Prabhu, Varma, KDD 2016, section 4). N >= 3 is needed for
// values of 1 and above. Takes memory for the labels that occur, however many there could be.
class InversePropensities {
 public:
  InversePropensities() = default;  // unknown
  // An empty `train` gives 1 for all.
  explicit InversePropensities(const Dataset& train, double a = 0.55, double b = 1.5);
  // `values`: of some labels, ascending; `others`: of all other labels.
  InversePropensities(std::vector<std::pair<uint32_t, float>> values, float others);

  bool known() const { return known_; }
  // REQUIRES known(), here and below.
  float operator[](uint32_t label) const;
  // The `count` largest values of `labels`, descending; of all labels if there are less.
  void Largest(std::span<const uint32_t> labels, size_t count, std::vector<double>* largest) const;

 private:
  // Values of the labels that occur, ascending. Copies share them.
  std::shared_ptr<const std::vector<std::pair<uint32_t, float>>> values_;
  float others_ = 1;
  bool known_ = false;
};

// Accumulates metrics over samples, in any order. Not thread-safe.
class RankingEvaluator {
 public:
  // PSP is 0 if `inverse_propensities` are not known.
  explicit RankingEvaluator(InversePropensities inverse_propensities);

  // `ranked`: predicted labels, best first, at most the first kMaxMetricK count.
  // `labels`: the true ones, ascending. A sample without labels scores 0, as in pyxclib, and so
  // does each prediction that is missing. Returns nDCG@kMaxMetricK of the sample. REQUIRES that no
  // label is predicted twice.
  double Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);

  RankingMetrics Result() const;
  // Forgets all samples.
  void Clear() { *this = RankingEvaluator(std::move(inverse_propensities_)); }

 private:
  double AddHits(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);
  void AddBestPropensities(std::span<const uint32_t> labels);

  InversePropensities inverse_propensities_;
  uint64_t samples_ = 0;
  uint64_t without_labels_ = 0;
  double precision_[kMaxMetricK] = {};
  double ndcg_[kMaxMetricK] = {};
  double psp_numerator_[kMaxMetricK] = {};
  double psp_denominator_[kMaxMetricK] = {};
  std::vector<double> weights_;  // scratch of AddBestPropensities
};

}  // namespace dslide
