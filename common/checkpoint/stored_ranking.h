// The logit adjustment of a run's model, chosen from held-out samples at the end of training: a
// file beside the checkpoints, ranking.json.
//
//   {"logit_adjustment": 0.2, "rare_logit_adjustment": 0.5} common/data/measures/logit_adjustment.h
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/data/measures/logit_adjustment.h"

namespace dslide {

Status StoreRanking(const std::string& directory, const LogitAdjustment& adjustment);

// Reads the file from beside a checkpoint; without the file the defaults. Errors (kBadInput) name
// the file.
Result<LogitAdjustment> LoadRankingOf(const std::string& checkpoint);

}  // namespace dslide
