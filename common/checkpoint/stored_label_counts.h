// How many training samples have each label: a file beside the checkpoints, so that it goes where
// the model goes. Predictions can favour rare labels by it (Model::WithLogitAdjustment()).
//
//   file = line*
//   line = label TAB samples LF        both decimal; labels ascend; samples >= 1
//
// Runs of earlier versions and streams have none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/data/measures/label_counts.h"

namespace dslide {

// Writes the file into a directory of checkpoints.
Status StoreLabelCounts(const std::string& directory, const std::vector<LabelCount>& counts);

// Reads the counts [num_labels] from beside a checkpoint; an empty vector without such a file.
// Errors (kBadInput) name the file.
Result<std::vector<uint32_t>> LoadLabelCountsOf(const std::string& checkpoint, uint32_t num_labels);

}  // namespace dslide
