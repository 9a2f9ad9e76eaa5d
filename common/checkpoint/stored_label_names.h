// The names of the labels of a model of numbers (train.label_names): a copy of the file beside the
// checkpoints, so that they go where the model goes. A model of text has names in its preprocessor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"

namespace dslide {

// One name a label, by id; a label that the file (ReadLabelNames()) leaves out has its number.
// Control characters become spaces.
// Errors (kBadInput) name the file: it has other ids, or is not UTF-8.
Result<std::vector<std::string>> LoadLabelNames(const std::string& path, uint32_t num_labels);

// Writes the copy into a directory of checkpoints; returns its path.
Result<std::string> StoreLabelNames(const std::string& directory,
                                    const std::vector<std::string>& names);

// The names of the model of a checkpoint, by the copy beside it, else by the file that its
// configuration names. Empty: it names none. Errors (kBadInput) name both.
Result<std::vector<std::string>> LoadLabelNamesOf(const std::string& checkpoint,
                                                  const Config& config);

}  // namespace dslide
