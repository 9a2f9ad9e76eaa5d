// Streaming reader of LIBSVM's sparse format, with any number of labels and without a header:
//
//   line = [label *("," label)] *(" " feature ":" value) ["#" comment] "\n"
//
// with tabs for spaces as well.
//
// Labels and features are ids from 0 to 2^32 - 2. The rules of the Extreme Classification
// Repository's format hold (common/data/xc_reader.h), with one exception: a line that is blank, or
// a comment alone, is no sample.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/data/dataset.h"
#include "common/data/text_stream.h"
#include "common/data/xc_line.h"

namespace dslide {

// Whether a line is a sample of this format with a feature at least.
bool IsLibsvmLine(std::string_view line);
// Whether it is label ids alone.
bool IsLabelList(std::string_view line);

class LibsvmReader {
 public:
  explicit LibsvmReader(TextStream stream) : stream_(std::move(stream)) {}

  // The next sample, or nullopt at the end; the view is valid until the next call. Errors are as
  // XcReader's.
  Result<std::optional<SampleView>> Next();

 private:
  TextStream stream_;
  XcLineParser parser_;
  std::string spaced_;  // scratch: a line with spaces in place of tabs
};

}  // namespace dslide
