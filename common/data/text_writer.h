// Writes a text file, compressed if its name says so: .gz or .zst.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

// The file has its name once it is complete (OutputFile). One thread uses an object.
class TextWriter {
 public:
  // Errors (kBadInput) name the path.
  static Result<TextWriter> Create(const std::string& path);
  TextWriter(TextWriter&&) noexcept;
  ~TextWriter();  // removes a file that is not finished

  void Write(std::string_view text);  // Finish() reports a failure
  Status Finish();

  class Encoder;  // an implementation detail

 private:
  explicit TextWriter(std::unique_ptr<Encoder> encoder);

  std::unique_ptr<Encoder> encoder_;
};

}  // namespace dslide
