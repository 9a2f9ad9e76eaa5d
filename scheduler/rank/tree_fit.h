// Grows the trees of a Reranker. XGBoost appears behind this file only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/error.h"
#include "common/rank/boosted_trees.h"

namespace dslide {

// Boosted trees for the log odds that a row's target is 1 (Chen and Guestrin, "XGBoost: A Scalable
// Tree Boosting System", KDD 2016). `rows`: [n x features], NaN where a feature is missing.
// `targets`: [n] 0 or 1. One thread; the result depends on the arguments alone. REQUIRES rows of
// both targets.
Result<BoostedTrees> FitTrees(std::span<const float> rows, uint32_t features,
                              std::span<const float> targets);

}  // namespace dslide
