// The candidates for a sample's labels, and their features for a ranking. Candidates are the
// model's best labels, and the labels that the sample's text mentions by name.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/data/measures/logit_adjustment.h"
#include "common/text/vocabulary/sample_names.h"
#include "common/text/vocabulary/vocabulary.h"

namespace dslide {

// How often texts of training samples mention a label, and how often such a sample has the label.
struct NameTally {
  uint32_t hits = 0;
  uint32_t right = 0;  // at most `hits`

  bool operator==(const NameTally&) const = default;
};

// The number of the model's labels that become candidates: on gnd-text 30 to 100 of them give the
// same measures.
constexpr uint32_t kModelCandidates = kAdjustedLabels;

// The features of a candidate; NaN where the sample or the model says nothing.
enum class RankFeature : uint32_t {
  kLogProbability,  // of the model, among its kModelCandidates best
  kRank,            // in the model's order, from 0
  kGap,             // the logit less the greatest one
  kNameCount,       // places that name the label
  kNameFirst,       // the first one, in words
  kNameFirstShare,  // the same as a share of the text
  kNamesInTitle,
  kNameWords,         // of the longest name that matched
  kNameIsWhole,       // -1: no match
  kNameCandidates,    // labels of that name
  kLogSamples,        // training samples of the label
  kLogReliability,    // of a match: how often a text that has the label's name has the label
  kLabelReliability,  // the same without a match
  kLogHits,           // training texts that mention the label
  kTextWords,
  kNameLength,  // of the preferred name, in bytes
  kCount,
};
constexpr uint32_t kRankFeatures = static_cast<uint32_t>(RankFeature::kCount);

struct Candidates {
  std::vector<uint32_t> labels;
  std::vector<float> rows;  // [labels x kRankFeatures]
};

// Facts about each label that do not depend on a sample. Immutable; any number of threads may use
// it.
class LabelFacts {
 public:
  // `samples`: [N] training samples of each label. `tallies`: [N]. `vocabulary`: of N concepts.
  LabelFacts(std::vector<uint32_t> samples, std::vector<NameTally> tallies,
             const Vocabulary& vocabulary);

  const std::vector<uint32_t>& samples() const { return samples_; }
  const std::vector<NameTally>& tallies() const { return tallies_; }

  // The candidates of a sample: `labels`, the model's best ones with their logits, best first, and
  // behind them those of `names` that are not among them. Replaces *candidates.
  void MakeCandidates(std::span<const uint32_t> labels, std::span<const float> logits,
                      SampleNames names, Candidates* candidates) const;

 private:
  void AddRow(uint32_t label, const NameMatch* match, uint32_t words, Candidates* candidates) const;

  std::vector<uint32_t> samples_;
  std::vector<NameTally> tallies_;
  std::vector<uint16_t> name_lengths_;
  float mean_reliability_ = 0;  // of all matches
};

}  // namespace dslide
