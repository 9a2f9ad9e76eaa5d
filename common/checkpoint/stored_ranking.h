// How a run's model ranks labels, as its held-out samples have told at the end of training: a file
// beside the checkpoints, ranking.json.
//
//   {"logit_adjustment": 0.2, "rare_logit_adjustment": 0.5} common/data/measures/logit_adjustment.h
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/data/measures/logit_adjustment.h"

namespace dslide {

Status StoreRanking(const std::string& directory, const LogitAdjustment& adjustment);

// That of the model of a checkpoint; the defaults if there is no file. Errors (kBadInput) name the
// file.
Result<LogitAdjustment> LoadRankingOf(const std::string& checkpoint);

}  // namespace dslide
