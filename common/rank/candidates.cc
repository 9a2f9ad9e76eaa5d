#include "common/rank/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace dslide {
namespace {

// The reliability of a label is smoothed by so many matches of mean reliability.
constexpr float kPriorMatches = 3;
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

float Log1p(uint32_t count) { return std::log1p(static_cast<float>(count)); }

// log sum_i exp(logits[i]). REQUIRES logits that descend.
float LogSum(std::span<const float> logits) {
  float sum = 0;
  for (const float logit : logits) sum += std::exp(logit - logits[0]);
  return logits.empty() ? 0 : logits[0] + std::log(sum);
}

}  // namespace

LabelFacts::LabelFacts(std::vector<uint32_t> samples, std::vector<NameTally> tallies,
                       const Vocabulary& vocabulary)
    : samples_(std::move(samples)), tallies_(std::move(tallies)) {
  DSLIDE_CHECK(samples_.size() == vocabulary.size() && tallies_.size() == vocabulary.size());
  uint64_t hits = 0, right = 0;
  for (const NameTally& tally : tallies_) {
    hits += tally.hits;
    right += tally.right;
  }
  mean_reliability_ =
      static_cast<float>(right + 1) / static_cast<float>(hits + 2);  // Laplace's rule of succession
  constexpr size_t kMost = std::numeric_limits<uint16_t>::max();
  for (uint32_t label = 0; label < vocabulary.size(); ++label) {
    const size_t length = vocabulary.Label(label).size();
    name_lengths_.push_back(static_cast<uint16_t>(std::min(length, kMost)));
  }
}

void LabelFacts::MakeCandidates(std::span<const uint32_t> labels, std::span<const float> logits,
                                SampleNames names, Candidates* candidates) const {
  candidates->labels.clear();
  candidates->rows.clear();
  const float log_sum = LogSum(logits.first(std::min<size_t>(kModelCandidates, logits.size())));
  std::vector<bool> added(names.matches.size());
  for (size_t rank = 0; rank < labels.size(); ++rank) {
    const auto match = std::ranges::lower_bound(names.matches, labels[rank], {}, &NameMatch::label);
    const bool is_named = match != names.matches.end() && match->label == labels[rank];
    if (is_named) added[static_cast<size_t>(match - names.matches.begin())] = true;
    AddRow(labels[rank], is_named ? &*match : nullptr, names.words, candidates);
    float* row = candidates->rows.data() + rank * kRankFeatures;
    row[static_cast<uint32_t>(RankFeature::kLogProbability)] = logits[rank] - log_sum;
    row[static_cast<uint32_t>(RankFeature::kRank)] = static_cast<float>(rank);
    row[static_cast<uint32_t>(RankFeature::kGap)] = logits[rank] - logits[0];
  }
  for (size_t m = 0; m < names.matches.size(); ++m) {
    if (!added[m]) AddRow(names.matches[m].label, &names.matches[m], names.words, candidates);
  }
}

void LabelFacts::AddRow(uint32_t label, const NameMatch* match, uint32_t words,
                        Candidates* candidates) const {
  candidates->labels.push_back(label);
  candidates->rows.resize(candidates->labels.size() * kRankFeatures, kNone);
  float* row = candidates->rows.data() + candidates->rows.size() - kRankFeatures;
  const auto set = [row](RankFeature feature, auto value) {
    row[static_cast<uint32_t>(feature)] = static_cast<float>(value);
  };
  const NameTally& tally = tallies_[label];
  const float reliability =
      std::log((static_cast<float>(tally.right) + kPriorMatches * mean_reliability_) /
               (static_cast<float>(tally.hits) + kPriorMatches));
  set(RankFeature::kNameCount, match ? match->count : 0);
  set(RankFeature::kNamesInTitle, match ? match->in_title : 0);
  set(RankFeature::kNameWords, match ? match->words : 0);
  set(RankFeature::kNameIsWhole, match ? (match->is_whole ? 1 : 0) : -1);
  set(RankFeature::kNameCandidates, match ? match->candidates : 0);
  set(RankFeature::kLogSamples, Log1p(samples_[label]));
  set(RankFeature::kLabelReliability, reliability);
  set(RankFeature::kLogHits, Log1p(tally.hits));
  set(RankFeature::kTextWords, words);
  set(RankFeature::kNameLength, name_lengths_[label]);
  if (match == nullptr) return;
  set(RankFeature::kNameFirst, match->first);
  set(RankFeature::kNameFirstShare,
      static_cast<float>(match->first) / static_cast<float>(std::max(1u, words)));
  set(RankFeature::kLogReliability, reliability);
}

}  // namespace dslide
