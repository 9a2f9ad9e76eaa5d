// The file of a model's preprocessor, beside the checkpoints that were trained with it. Its name
// has the checksum of its bytes, and so has each manifest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/text/preprocessor.h"

namespace dslide {

// Of the file that StorePreprocessor() writes; 0 for null.
uint64_t ChecksumOf(const Preprocessor* preprocessor);

// Writes the file into a directory of checkpoints. Null: does nothing.
Status StorePreprocessor(const std::string& directory, const Preprocessor* preprocessor);

// Reads it. Null if `checksum` is 0: the model's samples are numbers. Errors (kBadInput) name the
// file.
Result<std::shared_ptr<const Preprocessor>> LoadPreprocessor(const std::string& directory,
                                                             uint64_t checksum);

// The same for a checkpoint in its own directory, however that is written.
Result<std::shared_ptr<const Preprocessor>> LoadPreprocessorOf(const std::string& checkpoint,
                                                               uint64_t checksum);

}  // namespace dslide
