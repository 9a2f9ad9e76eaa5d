#include "scheduler/rank/reranker_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "scheduler/rank/tree_fit.h"

namespace dslide {
namespace {

constexpr size_t kFolds = 3;

// The candidates of some samples as training rows.
struct Rows {
  std::vector<float> rows, targets;

  void Add(const Candidates& candidates, const RankedSample& sample) {
    rows.insert(rows.end(), candidates.rows.begin(), candidates.rows.end());
    for (const uint32_t label : candidates.labels) {
      targets.push_back(std::ranges::binary_search(sample.labels, label) ? 1.0f : 0.0f);
    }
  }
  bool HasBoth() const {
    return std::ranges::count(targets, 1.0f) > 0 && std::ranges::count(targets, 0.0f) > 0;
  }
};

void Measure(const std::vector<RerankedLabel>& ranked, const RankedSample& sample,
             RankingEvaluator* metrics) {
  std::vector<uint32_t> best;
  for (size_t i = 0; i < std::min<size_t>(kMaxMetricK, ranked.size()); ++i) {
    best.push_back(ranked[i].label);
  }
  metrics->Add(best, sample.labels);
}

std::string MeasureText(const RankingMetrics& m) {
  return fmt::format("P@1 {:.2f}  P@3 {:.2f}  P@5 {:.2f}  nDCG@5 {:.2f}", 100 * m.precision[0],
                     100 * m.precision[2], 100 * m.precision[4], 100 * m.ndcg[4]);
}

double Ndcg(const RankingMetrics& metrics) { return metrics.ndcg[kMaxMetricK - 1]; }

}  // namespace

Result<FittedReranker> FitReranker(const std::vector<RankedSample>& samples,
                                   const NamesOfSamples& names, LabelFacts facts,
                                   const std::string& stem,
                                   const InversePropensities& propensities) {
  DSLIDE_CHECK(samples.size() >= kLeastRerankSamples && samples.size() <= names.size());
  std::vector<Candidates> candidates(samples.size());
  RankingEvaluator reranked(propensities);
  Rows all;
  for (size_t i = 0; i < samples.size(); ++i) {
    facts.MakeCandidates(samples[i].ranked, samples[i].scores, names[i], &candidates[i]);
    all.Add(candidates[i], samples[i]);
  }
  FittedReranker fitted;
  fitted.model = fitted.reranked = MeasureModel(samples, propensities);
  if (!all.HasBoth()) return fitted;
  for (size_t fold = 0; fold < kFolds; ++fold) {
    Rows others;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (i % kFolds != fold) others.Add(candidates[i], samples[i]);
    }
    if (!others.HasBoth()) return fitted;
    const Result<BoostedTrees> trees = FitTrees(others.rows, kRankFeatures, others.targets);
    DSLIDE_RETURN_IF_ERROR(trees);
    for (size_t i = fold; i < samples.size(); i += kFolds) {
      Measure(RankCandidates(candidates[i], *trees), samples[i], &reranked);
    }
  }
  const RankingMetrics result = reranked.Result();
  if (Ndcg(result) <= Ndcg(fitted.model) || result.precision[0] < fitted.model.precision[0]) {
    return fitted;
  }
  fitted.reranked = result;
  Result<BoostedTrees> trees = FitTrees(all.rows, kRankFeatures, all.targets);
  DSLIDE_RETURN_IF_ERROR(trees);
  fitted.reranker = std::make_shared<const Reranker>(std::move(facts), *std::move(trees), stem);
  return fitted;
}

RankingMetrics MeasureModel(const std::vector<RankedSample>& samples,
                            const InversePropensities& propensities) {
  RankingEvaluator metrics(propensities);
  for (const RankedSample& sample : samples) metrics.Add(sample.ranked, sample.labels);
  return metrics.Result();
}

RankingMetrics MeasureReranked(const Reranker& reranker, const std::vector<RankedSample>& samples,
                               const NamesOfSamples& names,
                               const InversePropensities& propensities) {
  RankingEvaluator metrics(propensities);
  for (size_t i = 0; i < samples.size(); ++i) {
    Measure(reranker.Rank(samples[i].ranked, samples[i].scores, names[i]), samples[i], &metrics);
  }
  return metrics.Result();
}

std::string HeldOutText(const FittedReranker& fitted) {
  if (fitted.reranker == nullptr) {
    return "labels are ranked by the model alone: names in texts do not improve its ranking of the "
           "held-out samples";
  }
  return fmt::format("held out, ranked by model and names: {}; by the model alone: {}",
                     MeasureText(fitted.reranked), MeasureText(fitted.model));
}

std::string TestText(const RankingMetrics& reranked, const RankingMetrics& model) {
  return fmt::format(
      "final, ranked by model and names: {}; by the model alone: {}  ({} test samples)",
      MeasureText(reranked), MeasureText(model), reranked.samples);
}

void AdjustLogits(const LabelLogs& logs, float weight, std::vector<RankedSample>* samples) {
  if (weight == 0) return;
  for (RankedSample& sample : *samples) {
    std::vector<std::pair<float, uint32_t>> order;
    for (size_t i = 0; i < sample.ranked.size(); ++i) {
      order.emplace_back(sample.scores[i] - weight * logs[sample.ranked[i]], sample.ranked[i]);
    }
    std::ranges::sort(order, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    for (size_t i = 0; i < order.size(); ++i) {
      std::tie(sample.scores[i], sample.ranked[i]) = order[i];
    }
  }
}

}  // namespace dslide
