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
#include "tools/dslide/data/number_writer.h"
#include "tools/dslide/data/sample_lines.h"

namespace dslide {

class SampleWriter {
 public:
  // Creates a file in the format of `source`, with the header of CSV. An output of matrices is
  // "X.npz,Y.npz". Errors (kBadInput) name the path.
  static Result<SampleWriter> Create(const std::string& path, const DataFile& source);

  // Finish() reports a failure.
  void Add(std::string_view line);
  uint64_t samples() const { return samples_; }
  // `size`: that of all samples of the file that the lines come from.
  Status Finish(const ModelSize& size);

 private:
  SampleWriter() = default;

  void WriteLine(std::string_view line);

  std::optional<TextWriter> text_;
  std::unique_ptr<NumberWriter> numbers_;
  XcLineParser parser_;
  uint64_t samples_ = 0;
};

}  // namespace dslide
