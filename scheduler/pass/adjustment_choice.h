// The choice of a model's logit adjustment (common/data/measures/logit_adjustment.h) from the last
// evaluation of the held-out samples.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/data/measures/logit_adjustment.h"
#include "common/data/measures/metrics.h"
#include "scheduler/base/actions.h"

namespace dslide {

// A logit s z_j - t log(max(n_j, 1)) for the labels j that the model ranks first for a sample, with
// their logits z_j and counts n_j: the s and t with the greatest likelihood of the true labels
// among them, where a sample's true labels have equal shares (a conditional logit model: McFadden,
// "Conditional Logit Analysis of Qualitative Choice Behavior", 1974).
struct FittedWeight {
  float weight = 0;          // t / s
  float standard_error = 0;  // of t, over s
};
// Returns nullopt if no sample has a true label among its ranked labels, or the likelihood has no
// maximum.
std::optional<FittedWeight> FitWeight(const std::vector<RankedSample>& samples,
                                      const LabelLogs& logs);

// Begins AdjustmentChoice::line.
constexpr char kAdjustmentLine[] = "logit adjustment";

struct AdjustmentChoice {
  LogitAdjustment adjustment;
  RankingMetrics metrics;  // with adjustment.usual
  std::string line;        // the choice with its figures, for people
};

// `usual` is the fitted weight, at most 0.5 either way, in hundredths; 0 if that is within twice
// its standard error, or lowers P@1 or nDCG@5. `rare`, from `usual` to 1, gives the greatest PSP@1.
AdjustmentChoice ChooseAdjustment(const std::vector<RankedSample>& samples, const LabelLogs& logs,
                                  const InversePropensities& propensities);

}  // namespace dslide
