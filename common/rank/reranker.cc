#include "common/rank/reranker.h"

#include <algorithm>
#include <cmath>

namespace dslide {

std::vector<RerankedLabel> RankCandidates(const Candidates& candidates, const BoostedTrees& trees) {
  std::vector<RerankedLabel> ranked;
  ranked.reserve(candidates.labels.size());
  for (size_t c = 0; c < candidates.labels.size(); ++c) {
    const float score = trees.Score(candidates.rows.data() + c * kRankFeatures);
    ranked.push_back({candidates.labels[c], score, 1 / (1 + std::exp(-score))});
  }
  std::ranges::sort(ranked, [](const RerankedLabel& a, const RerankedLabel& b) {
    return a.score != b.score ? a.score > b.score : a.label < b.label;
  });
  return ranked;
}

std::vector<RerankedLabel> Reranker::Rank(std::span<const uint32_t> labels,
                                          std::span<const float> logits, SampleNames names) const {
  Candidates candidates;
  facts_.MakeCandidates(labels, logits, names, &candidates);
  return RankCandidates(candidates, trees_);
}

}  // namespace dslide
