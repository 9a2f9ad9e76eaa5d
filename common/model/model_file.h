// A model in one file, which is mapped into memory: opening it reads next to nothing.
//
//   "dslide model\n"      16 bytes, filled up with zeros
//   sections              each at a multiple of 64 bytes: the arrays of ModelArrays by name, and
//                         "preprocessor", as in a checkpoint, and "notes"
//   description           schema/model.fbs
//   length, checksum      of the description, 8 bytes each, least byte first
//   "dslide end\n"        16 bytes, filled up with zeros
//
// Numbers have their least byte first. Every section has a checksum, and large ones (input, rows,
// weights) have one for each block of 64 KiB, too. Only the zeros between sections have none.
#pragma once

#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/model/model.h"

namespace dslide {

constexpr uint32_t kModelFormat = 1;

// Writes a temporary file, and renames it when it is complete. Errors name the file (kFailed), or
// the damaged one that the model is mapped from (kBadInput).
Status WriteModelFile(const Model& model, const std::string& path);

// Where the arrays of an open file are.
enum class ModelMemory {
  kMapped,  // in the file, which may be removed or replaced by another (rename) meanwhile, but must
            // not be written to: reading what was cut off ends the process (SIGBUS). Large sections
            // are checked before their first use (Model::Check)
  kCopied,  // in memory of their own, all of them, and checked: the file does not matter any more
};

// Checks the description, that every section is there in the right size, and the checksums of all
// of them, with kMapped of all but the large ones. Errors (kBadInput) name the file, what is wrong
// and the remedy.
Result<std::shared_ptr<const Model>> OpenModelFile(const std::string& path,
                                                   ModelMemory memory = ModelMemory::kMapped);

// Checks every section's checksum, too.
Status VerifyModelFile(const std::string& path);

// Whether a file begins like a model file.
bool IsModelFile(const std::string& path);

}  // namespace dslide
