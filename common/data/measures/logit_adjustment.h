// Logit adjustment: rankings prefer rare or frequent labels. The logit of a label that n training
// samples have is lower by weight * log(max(n, 1)) (Menon et al., "Long-tail learning via logit
// adjustment", ICLR 2021, section 4.1). A model that was trained on few samples a label scores rare
// labels too low on samples that it has not seen; one that has learned its training samples by
// heart scores them too high.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "common/data/measures/label_counts.h"

namespace dslide {

// The weights of a model.
struct LogitAdjustment {
  float usual = 0;    // fitted on held-out samples; 0 leaves logits as they are
  float rare = 0.5f;  // gives held-out samples the best PSP@1; at least `usual`

  // The ranking at share 0 is the usual one, the ranking at share 1 the one for rare labels.
  float At(float share) const { return usual + share * (rare - usual); }
  bool operator==(const LogitAdjustment&) const = default;
};

// log(max(n, 1)) for a label of n samples.
inline float LogOfCount(uint64_t count) {
  return std::log(static_cast<float>(std::max<uint64_t>(count, 1)));
}

// LogOfCount() by label. Takes memory for the labels that occur.
class LabelLogs {
 public:
  LabelLogs() = default;
  // REQUIRES labels that ascend, as CountLabels() returns them.
  explicit LabelLogs(const std::vector<LabelCount>& counts);

  float operator[](uint32_t label) const;

 private:
  struct Entry {
    uint32_t label;
    float log;
  };
  std::vector<Entry> entries_;
};

// The amount that a logit adjustment subtracts from each label's bias, relative to the mean label
// of a training sample.
class BiasShift {
 public:
  // `counts`: the training samples of each label, [N].
  BiasShift(std::span<const uint32_t> counts, float weight);

  float operator[](uint32_t label) const {
    return weight_ * (LogOfCount(counts_[label]) - mean_log_);
  }

 private:
  std::span<const uint32_t> counts_;
  float weight_;
  float mean_log_;
};

// Samples are ranked by so many labels before an adjustment ranks them again, of which the first
// few count: on gnd-tibkat 200 of them give the same measures up to a weight of 0.4.
constexpr uint32_t kAdjustedLabels = 50;

// The first `count` of a sample's labels by their adjusted logits, best first; of equal ones the
// lower label. `scores`: the logits of `labels`.
std::vector<uint32_t> AdjustedRanking(std::span<const uint32_t> labels,
                                      std::span<const float> scores, const LabelLogs& logs,
                                      float weight, size_t count);

}  // namespace dslide
