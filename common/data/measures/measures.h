// All measures of a model's rankings over a test file. Training needs a few of them and uses
// RankingEvaluator (common/data/measures/metrics.h), which keeps nothing per label.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/data/measures/label_counts.h"
#include "common/data/measures/label_tallies.h"
#include "common/data/measures/metrics.h"

namespace dslide {

// At one cutoff k, as fractions in [0, 1]. `hits`: the true labels among a sample's first k
// predictions. A sample without labels scores 0 everywhere, and a prediction that is missing is a
// miss. The first line of each group says what it is a mean over.
struct MeasuresAtK {
  uint32_t k = 0;

  // Over samples.
  double precision = 0;  // hits / k; as pyxclib defines it, like nDCG and recall
  double ndcg = 0;
  double recall = 0;           // hits / true labels
  double f1 = 0;               // 2 hits / (predictions, at most k, + true labels): scikit-learn's
                               // f1_score(average="samples")
  double hit_rate = 0;         // whether there is a hit
  double reciprocal_rank = 0;  // 1 / the rank of the first hit, counted from 1; 0 without a hit

  // Over samples, hits weighted by inverse propensities, as a share of the best that is achievable
  // (Jain, Prabhu, Varma, KDD 2016). 0 if the propensities are not known.
  double propensity_precision = 0;
  // The sum over samples of a DCG of weighted hits over the sample's ideal DCG without weights,
  // divided by the same sum for the best ranking: psndcg of pyxclib.
  double propensity_ndcg = 0;

  LabelMeasures over_labels = {};
};

struct Measures {
  uint64_t samples = 0;
  uint64_t samples_without_labels = 0;
  uint64_t labels_in_data = 0;  // labels that are true in at least one sample
  std::vector<MeasuresAtK> at;  // index: the cutoff's
  bool with_propensities = false;
  std::optional<std::array<BandMeasures, kBands>> bands;  // nullopt: unknown
};

// Accumulates measures over samples, in any order. Takes memory for the labels that occur, none
// for samples. Not thread-safe.
class MeasureAccumulator {
 public:
  // `cutoffs`: of 1 and above, ascending, at least one (REQUIRED). PSP and PSnDCG want propensities
  // that are known, BandMeasures want bands that are known.
  MeasureAccumulator(std::vector<uint32_t> cutoffs, InversePropensities inverse_propensities,
                     FrequencyBands bands);

  // `ranked`: predicted labels, best first. `labels`: the true ones, ascending. REQUIRES that no
  // label is predicted twice.
  void Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);

  Measures Result() const;

 private:
  // Sums over samples at one cutoff.
  struct Sums {
    uint32_t k = 0;
    double precision = 0, ndcg = 0, recall = 0, f1 = 0, hit_rate = 0, reciprocal_rank = 0;
    double psp = 0, best_psp = 0;  // PSP is their ratio
    double psndcg = 0, best_psndcg = 0;
  };

  void AddHits(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);
  void AddWeightedHits(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);

  InversePropensities inverse_propensities_;
  FrequencyBands bands_;
  LabelTallies tallies_;
  uint64_t samples_ = 0;
  uint64_t samples_without_labels_ = 0;
  std::vector<Sums> sums_;         // [cutoff]
  std::vector<double> discounts_;  // [rank], up to the last cutoff
  std::vector<double> largest_;    // scratch of AddWeightedHits
};

}  // namespace dslide
