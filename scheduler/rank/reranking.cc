#include "scheduler/rank/reranking.h"

#include <chrono>
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
  Take(/*waits=*/true);
  if (held_out.size() < kLeastRerankSamples || held_out.size() > evidence_.held_out.size()) return;
  fit_ = std::async(std::launch::async, [this, samples = std::move(held_out)] {
    return FitReranker(samples, evidence_.held_out,
                       LabelFacts(label_samples_, evidence_.tallies, preprocessor_->vocabulary()),
                       evidence_.stem, propensities_);
  });
}

std::optional<Result<FittedReranker>> Reranking::Take(bool waits) {
  if (!fit_.valid()) return std::nullopt;
  if (!waits && fit_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return std::nullopt;
  }
  return fit_.get();
}

}  // namespace dslide
