// Ranks the labels that a model and the names in a sample's text suggest (candidates.h) anew, by
// trees that were fitted on held-out samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/rank/boosted_trees.h"
#include "common/rank/candidates.h"

namespace dslide {

struct RerankedLabel {
  uint32_t label = 0;
  float score = 0;        // the log odds of `probability`
  float probability = 0;  // that the sample has the label
};

// Immutable; any number of threads may use it.
class Reranker {
 public:
  // `stem`: of the NameMatcher whose matches Rank() gets.
  Reranker(LabelFacts facts, BoostedTrees trees, std::string stem)
      : facts_(std::move(facts)), trees_(std::move(trees)), stem_(std::move(stem)) {}

  const LabelFacts& facts() const { return facts_; }
  const BoostedTrees& trees() const { return trees_; }
  const std::string& stem() const { return stem_; }

  // The candidates of a sample, best first, of equal scores the lower label first. Arguments are
  // those of LabelFacts::MakeCandidates().
  std::vector<RerankedLabel> Rank(std::span<const uint32_t> labels, std::span<const float> logits,
                                  SampleNames names) const;

 private:
  LabelFacts facts_;
  BoostedTrees trees_;
  std::string stem_;
};

// Candidates by the trees' scores; see Reranker::Rank().
std::vector<RerankedLabel> RankCandidates(const Candidates& candidates, const BoostedTrees& trees);

}  // namespace dslide
