// How the labels of a run's model are ranked, chosen from held-out samples at the end of training:
// files beside the checkpoints.
//
//   ranking.json  {"logit_adjustment": 0.2, "rare_logit_adjustment": 0.5}
//                 common/data/measures/logit_adjustment.h
//   reranker      common/rank/stored_reranker.h; only with a vocabulary
#pragma once

#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/data/measures/logit_adjustment.h"
#include "common/rank/reranker.h"

namespace dslide {

Status StoreRanking(const std::string& directory, const LogitAdjustment& adjustment);

// Reads the file from beside a checkpoint; without the file the defaults. Errors (kBadInput) name
// the file.
Result<LogitAdjustment> LoadRankingOf(const std::string& checkpoint);

Status StoreRerankerIn(const std::string& directory, const Reranker& reranker);

// Reads the file from beside a checkpoint; null without the file. Errors (kBadInput) name it.
Result<std::shared_ptr<const Reranker>> LoadRerankerOf(const std::string& checkpoint,
                                                       const Vocabulary& vocabulary);

}  // namespace dslide
