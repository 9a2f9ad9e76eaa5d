// Streaming reader of the Extreme Classification Repository's text format:
//
//   file   = header line*
//   header = N " " D " " L "\n"                     samples, features, labels
//   line   = [label *("," label)] *(" " feature ":" value) "\n"
//
// Plain, gzip (.gz) or Zstandard (.zst), recognised by content. A sample may have no labels (the line
// then starts with a space or is empty) and no features. Ids must be in range; an id that is
// repeated within a sample is an error. Ids within a sample may come in any order and are sorted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/data/dataset.h"

namespace dslide {

struct XcHeader {
  uint64_t num_samples = 0;
  uint32_t num_features = 0;
  uint32_t num_labels = 0;
};

class XcReader {
 public:
  // Opens `path` and reads the header. Errors are kBadInput and start with "path:line: ".
  static Result<XcReader> Open(const std::string& path);

  XcReader(XcReader&&) noexcept;
  XcReader& operator=(XcReader&&) noexcept;
  ~XcReader();

  const XcHeader& header() const;

  // The next sample, or nullopt after the header's last one; the view is valid until the next call.
  // Too few or too many samples, and a truncated compressed stream, are errors.
  Result<std::optional<SampleView>> Next();

 private:
  class Impl;
  explicit XcReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads a whole file.
Result<Dataset> ReadXcFile(const std::string& path);

// Reads label names: lines of tab-separated values, plain, .gz or .zst, with the label id in the first
// column and the name in the last. Returns one name a label; ids that the file lacks have "".
Result<std::vector<std::string>> ReadLabelNames(const std::string& path, uint32_t num_labels);

}  // namespace dslide
