// How often each label was predicted, rightly and wrongly: the measures that are means over labels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/data/measures/label_counts.h"

namespace dslide {

// At one cutoff k, as fractions in [0, 1]. A label's hits are the samples that have it among their
// first k predictions and among their true labels.
struct LabelMeasures {
  // 2 hits / (predictions + true labels), summed over all labels before the division.
  double micro_f1 = 0;
  // The mean of 2 hits / (predictions + true) over the labels that are true in at least one sample.
  // All other labels have 0, so the mean over L labels is macro_f1 * labels_in_data() / L.
  double macro_f1 = 0;
  // The share of the labels that are true in at least one sample and have a hit. Schultheis et al.,
  // Generalized test utilities for long-tail performance in extreme multi-label classification,
  // NeurIPS 2023, divide by all labels instead.
  double coverage = 0;
};

// Of the labels of one band. Index: the cutoff's.
struct BandMeasures {
  uint64_t occurrences = 0;       // how often the band's labels are true
  std::vector<double> precision;  // hits / (k samples): these add up to P@k over the bands
  std::vector<double> recall;     // hits / occurrences, or 0 without occurrences
};

// Counts over samples, in any order. Takes memory for the labels that were true or predicted, each
// 4 (1 + 2 cutoffs) bytes and the entry of a hash table. Not thread-safe.
class LabelTallies {
 public:
  // REQUIRES cutoffs of 1 and above that ascend, at least one.
  explicit LabelTallies(std::vector<uint32_t> cutoffs);

  // `ranked`: predicted labels, best first, fewer than the last cutoff or more. `labels`: the true
  // ones, ascending. REQUIRES that no label is predicted twice.
  void Add(std::span<const uint32_t> ranked, std::span<const uint32_t> labels);

  // How many labels are true in at least one sample.
  uint64_t labels_in_data() const { return labels_in_data_; }
  std::vector<LabelMeasures> Measures() const;  // index: the cutoff's
  // REQUIRES bands that are known.
  std::array<BandMeasures, kBands> ForBands(const FrequencyBands& bands) const;

 private:
  // A label's row of counts. Ranks are in the interval of cutoff c if they are below it, and not
  // below the one before.
  //   [0]          samples that have the label
  //   [1 + 2 c]    predictions at the ranks of interval c
  //   [2 + 2 c]    those of them that are hits
  uint32_t* RowOf(uint32_t label);
  size_t stride() const { return 1 + 2 * cutoffs_.size(); }

  std::vector<uint32_t> cutoffs_;
  uint64_t samples_ = 0;
  uint64_t labels_in_data_ = 0;
  std::unordered_map<uint32_t, size_t> index_of_;
  std::vector<uint32_t> labels_;  // [index], in the order in which they came
  std::vector<uint32_t> rows_;    // [index * stride() + i]
};

}  // namespace dslide
