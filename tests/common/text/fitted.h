// Preprocessors of texts in memory.
#pragma once

#include <string>

#include "common/text/preprocessor.h"
#include "tests/support/data_file.h"
#include "tests/support/results.h"

namespace dslide {

// No term is too rare or too frequent.
inline TextConfig EveryTerm() {
  TextConfig config;
  config.min_samples = 1;
  config.max_share = 1;
  return config;
}

inline Preprocessor Fitted(const std::string& text, const TextConfig& config, size_t threads = 1) {
  const DataFile file(text);
  return Ok(Preprocessor::Fit(file.path(), config, threads));
}

inline Preprocessor Extended(const Preprocessor& known, const std::string& text,
                             size_t threads = 1) {
  const DataFile file(text);
  return Ok(known.Extend(file.path(), threads));
}

}  // namespace dslide
