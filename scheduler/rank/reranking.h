// The fit of a run's Reranker, in a thread of its own while the test samples are evaluated.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/measures/metrics.h"
#include "common/text/preprocessor.h"
#include "scheduler/base/actions.h"
#include "scheduler/rank/name_evidence.h"
#include "scheduler/rank/reranker_fit.h"

namespace dslide {

// The scheduler's thread uses an object.
class Reranking {
 public:
  // `label_samples`: [N] samples of each label that are trained.
  Reranking(NameEvidence evidence, std::vector<uint32_t> label_samples,
            std::shared_ptr<const Preprocessor> preprocessor, InversePropensities propensities);

  // Begins to fit, after waiting for an earlier fit. `held_out`: in the order of the held-out
  // samples, with adjusted logits (AdjustLogits()). Fewer than kLeastRerankSamples are not fitted.
  void Begin(std::vector<RankedSample> held_out);
  bool in_progress() const { return fit_.valid(); }
  // Returns the outcome of Begin() once; nullopt before the fit has ended.
  std::optional<Result<FittedReranker>> Collect();

  // The measures of a Reranker, and of the model alone, on test samples in their order, with
  // adjusted logits.
  std::pair<RankingMetrics, RankingMetrics> MeasureTest(
      const Reranker& reranker, const std::vector<RankedSample>& test) const;

 private:
  const NameEvidence evidence_;
  const std::vector<uint32_t> label_samples_;
  const std::shared_ptr<const Preprocessor> preprocessor_;
  const InversePropensities propensities_;
  std::future<Result<FittedReranker>> fit_;  // the destructor waits for it
};

}  // namespace dslide
