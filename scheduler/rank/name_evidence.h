// The names of labels in the texts of a run's samples: what a Reranker (common/rank) is fitted by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/rank/candidates.h"
#include "common/text/samples.h"
#include "common/text/vocabulary/sample_names.h"
#include "scheduler/base/run_inputs.h"

namespace dslide {

struct NameEvidence {
  std::string stem;                // of the NameMatcher: a language, or kNoStems
  std::vector<NameTally> tallies;  // [N] of samples that are trained
  NamesOfSamples held_out;         // in the order of the held-out samples, as the next at most
                                   // Evaluation::kMostKept of a file
  NamesOfSamples test;             // empty if the run has no test samples
};

// Chooses the stemmer of name matches: text.stem, else the one whose matches agree best with the
// labels of the first training samples (F1). kNoStems if none is better than no stems.
Result<std::string> ChooseNameStem(const std::string& path, const TextConfig& text,
                                   const Preprocessor& preprocessor);

// Reads the texts once more. An error (kBadInput) if a file has changed. REQUIRES a vocabulary, and
// held-out samples.
Result<NameEvidence> ReadNameEvidence(const RunContext& run, const Preprocessor& preprocessor);

}  // namespace dslide
