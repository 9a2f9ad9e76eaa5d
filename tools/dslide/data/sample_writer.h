// Writes the lines of SampleLines, in the format of the file that they come from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/data/text_writer.h"
#include "common/data/xc_line.h"
#include "common/text/record.h"
#include "tools/dslide/data/number_writer.h"
#include "tools/dslide/data/sample_lines.h"

namespace dslide {

class SampleWriter {
 public:
  // As `source` is; an output of matrices is "X.npz,Y.npz". Errors (kBadInput) name the path.
  static Result<SampleWriter> Create(const std::string& path, const DataFile& source);

  // Finish() reports a failure. The first line of text tells the format: those before the first one
  // that does so, without labels, are written behind it.
  void Add(std::string_view line);
  uint64_t samples() const { return samples_; }
  // `size`: that of all samples of the file that the lines come from.
  Status Finish(const ModelSize& size);

 private:
  SampleWriter() = default;

  void WriteLine(std::string_view line);
  void WriteHeld();

  std::optional<TextWriter> text_;
  std::optional<RecordFormat> untold_;  // what the first line has yet to tell
  std::string held_;                    // lines before it
  bool too_late_ = false;               // more of them than are held
  std::string path_;
  std::unique_ptr<NumberWriter> numbers_;
  XcLineParser parser_;
  uint64_t samples_ = 0;
};

}  // namespace dslide
