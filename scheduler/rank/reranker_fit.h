// Fits a Reranker on held-out samples, and measures it on others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/data/measures/logit_adjustment.h"
#include "common/data/measures/metrics.h"
#include "common/rank/reranker.h"
#include "common/text/vocabulary/vocabulary.h"
#include "scheduler/base/actions.h"

namespace dslide {

// Held-out samples, measured in kFolds parts, each by trees that were fitted on the others.
struct FittedReranker {
  std::shared_ptr<const Reranker> reranker;  // fitted on all samples; null if it does not gain
  RankingMetrics model;                      // of the model's own ranking
  RankingMetrics reranked;
};

// Fewer held-out samples do not decide anything.
constexpr size_t kLeastRerankSamples = 100;

// `samples` have adjusted logits, `names[i]` are the names in sample i. Trees that give a lower P@1
// or nDCG@5 than the model are not used. REQUIRES at least kLeastRerankSamples samples.
Result<FittedReranker> FitReranker(const std::vector<RankedSample>& samples,
                                   const NamesOfSamples& names, LabelFacts facts,
                                   const std::string& stem,
                                   const InversePropensities& propensities);

RankingMetrics MeasureModel(const std::vector<RankedSample>& samples,
                            const InversePropensities& propensities);
RankingMetrics MeasureReranked(const Reranker& reranker, const std::vector<RankedSample>& samples,
                               const NamesOfSamples& names,
                               const InversePropensities& propensities);

// Lowers the logits of labels by a logit adjustment, and sorts the labels by the new ones.
void AdjustLogits(const LabelLogs& logs, float weight, std::vector<RankedSample>* samples);

// Lines for people: the measures with and without names.
std::string HeldOutText(const FittedReranker& fitted);
std::string TestText(const RankingMetrics& reranked, const RankingMetrics& model);

}  // namespace dslide
