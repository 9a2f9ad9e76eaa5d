// Samples of numbers as short texts.
#pragma once

#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/data/whole_file.h"

namespace dslide {

using Samples = std::vector<std::string>;

// "labels|features|values".
inline std::string SampleText(const SampleView& sample) {
  return fmt::format("{}|{}|{}", fmt::join(sample.labels, ","), fmt::join(sample.features, ","),
                     fmt::join(sample.values, ","));
}

// All samples of a reader, or the error that ends them.
template <typename Reader>
Result<Samples> AllSamples(Result<Reader> reader) {
  DSLIDE_RETURN_IF_ERROR(reader);
  Samples samples;
  while (true) {
    const Result<std::optional<SampleView>> next = reader->Next();
    DSLIDE_RETURN_IF_ERROR(next);
    if (!*next) return samples;
    samples.push_back(SampleText(**next));
  }
}

inline std::string BytesOf(const std::string& path) { return *ReadWholeFile(path); }

}  // namespace dslide
