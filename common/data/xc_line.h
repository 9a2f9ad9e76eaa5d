// The grammar of one line of the Extreme Classification Repository's text format: no files, no
// line numbers. See xc_reader.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/dataset.h"

namespace dslide {

// A run of decimal digits at the start of a text.
struct ScannedNumber {
  uint64_t value = 0;
  bool overflow = false;       // the digits exceed 2^64 - 1; value means nothing
  const char* next = nullptr;  // past the digits; where the text starts if there are none
};
ScannedNumber ScanNumber(const char* text, const char* end);

// Reads the whole of `text` as a finite float, rounded to nearest, as std::from_chars does.
// False if it is anything else.
bool ParseFiniteFloat(std::string_view text, float* value);

// Reads samples of a data set with the given dimensions. Not thread-safe.
class XcLineParser {
 public:
  XcLineParser(uint32_t num_features, uint32_t num_labels)
      : num_features_(num_features), num_labels_(num_labels) {}
  // Of a file without a header: ids up to 2^32 - 2.
  XcLineParser();

  // `line` comes without its line end. The view is valid until the next call. Errors are kBadInput
  // and describe the fault, not its place.
  Result<SampleView> Parse(std::string_view line);

 private:
  // Both read from *text on and leave *text at the first byte after their part.
  Status ParseLabels(const char** text, const char* end);
  Status ParseFeatures(const char** text, const char* end);
  Status SortLabels();
  Status SortFeatures();

  uint32_t num_features_;
  uint32_t num_labels_;
  bool has_header_ = true;
  std::vector<uint32_t> labels_;
  std::vector<uint32_t> features_;
  std::vector<float> values_;                       // values_[i] belongs to features_[i]
  std::vector<std::pair<uint32_t, float>> sorted_;  // scratch of SortFeatures
};

}  // namespace dslide
