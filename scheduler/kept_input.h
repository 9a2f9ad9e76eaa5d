// Training data that comes by standard input (train.data = -). Text is read twice, and a run that
// goes on reads it again, so it is kept in the run directory.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "scheduler/provisional.h"

namespace dslide {

struct KeptInput {
  std::string path;
  Provisional made;  // the file, if it was read now
};

// Reads standard input to its end and writes it to a file in the run directory, which exists. A run
// that goes on has it there already. Errors (kBadInput) name train.data; a signal ends it
// (kTryLater).
Result<KeptInput> KeepStandardInput(const std::string& run_directory, bool resume,
                                    StopSignals* signals);

}  // namespace dslide
