#include "scheduler/rank/reranking.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>

namespace dslide {

Reranking::Reranking(NameEvidence evidence, std::vector<uint32_t> label_samples,
                     std::shared_ptr<const Preprocessor> preprocessor,
                     InversePropensities propensities)
    : evidence_(std::move(evidence)),
      label_samples_(std::move(label_samples)),
      preprocessor_(std::move(preprocessor)),
      propensities_(std::move(propensities)) {}

void Reranking::Begin(std::vector<RankedSample> held_out) {
  fit_ = {};  // waits for an earlier fit, and forgets it
  if (held_out.size() < kLeastRerankSamples || held_out.size() > evidence_.held_out.size()) return;
  fit_ = std::async(
      std::launch::async, [this, samples = std::move(held_out)]() -> Result<FittedReranker> {
        try {
          return FitReranker(
              samples, evidence_.held_out,
              LabelFacts(label_samples_, evidence_.tallies, preprocessor_->vocabulary()),
              evidence_.stem, propensities_);
        } catch (const std::exception& error) {  // no memory
          return Failed(fmt::format("the reranker: {}", error.what()));
        }
      });
}

std::optional<Result<FittedReranker>> Reranking::Collect() {
  if (!fit_.valid()) return std::nullopt;
  if (fit_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  return fit_.get();
}

std::pair<RankingMetrics, RankingMetrics> Reranking::MeasureTest(
    const Reranker& reranker, const std::vector<RankedSample>& test) const {
  return {MeasureReranked(reranker, test, evidence_.test, propensities_),
          MeasureModel(test, propensities_)};
}

}  // namespace dslide
