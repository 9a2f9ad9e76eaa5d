// Streaming reader of the Extreme Classification Repository's text format:
//
//   file   = header line*
//   header = N " " D " " L "\n"                     samples, features, labels
//   line   = [label *("," label)] *(" " feature ":" value) "\n"
//
// Plain, gzip (.gz) or Zstandard (.zst), recognised by content. A sample may have no labels (the
// line then starts with a space or is empty) and no features. Ids must be in range; an id that is
// repeated within a sample is an error. Ids within a sample may come in any order and are sorted.
// Tolerated: Windows line ends, runs of spaces, trailing spaces, blank lines after the last sample
// and a last line without its line end. Features and labels number 1 to 2^32 - 1.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/data/dataset.h"

namespace dslide {

class TextStream;

struct XcHeader {
  uint64_t num_samples = 0;
  uint32_t num_features = 0;
  uint32_t num_labels = 0;
};

class XcReader {
 public:
  // Opens `path` and reads the header. Errors are kBadInput (kFailed if the disk or the memory is
  // at fault) and start with "path:line: "; a file that cannot be opened counts as line 1.
  static Result<XcReader> Open(const std::string& path);

  // The same from an open stream that no line has been read from.
  static Result<XcReader> FromStream(TextStream stream);

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
// The same from an open stream whose next line is the header.
Result<Dataset> ReadXcStream(TextStream stream);

// Reads label names, plain, .gz or .zst, from lines
//
//   line = id "\t" key ["\t" count ["\t" name]] "\n"
//
// Returns one name a label: its name, or its key where the line has no fourth column, or "" for an
// id that the file lacks. Blank lines are skipped. Errors are as XcReader's; an id that is out of
// range or repeated is an error.
Result<std::vector<std::string>> ReadLabelNames(const std::string& path, uint32_t num_labels);

}  // namespace dslide
