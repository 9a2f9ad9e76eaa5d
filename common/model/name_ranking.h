// Ranks the labels of a text by the model and by the names in the text (common/rank/reranker.h).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "common/model/ranker.h"
#include "common/rank/reranker.h"
#include "common/text/vocabulary/name_matcher.h"
#include "common/text/vocabulary/sample_names.h"

namespace dslide {

// Immutable; any number of threads may use it.
class NameRanking {
 public:
  NameRanking(std::shared_ptr<const Reranker> reranker, const Vocabulary& vocabulary)
      : reranker_(std::move(reranker)),
        matcher_(std::make_shared<const NameMatcher>(vocabulary, reranker_->stem())) {}
  // Returns a copy that prefers rare labels: the score of a label of n training samples is lower by
  // weight * log(max(n, 1)).
  NameRanking WithRare(float weight) const {
    NameRanking copy = *this;
    copy.rare_weight_ = weight;
    return copy;
  }

  const Reranker& reranker() const { return *reranker_; }
  const NameMatcher& matcher() const { return *matcher_; }
  float rare_weight() const { return rare_weight_; }

  // Ranks a row of the model's ranking anew, and appends the best `k` labels to *to. The row has at
  // least kModelCandidates labels, if the model has so many. `filter` is the one that the model
  // ranked by; null: none.
  void AppendRow(const RankedLabels& by_model, size_t row, SampleNames names,
                 const LabelFilter* filter, size_t k, RankedLabels* to) const;

 private:
  std::shared_ptr<const Reranker> reranker_;
  std::shared_ptr<const NameMatcher> matcher_;
  float rare_weight_ = 0;
};

}  // namespace dslide
