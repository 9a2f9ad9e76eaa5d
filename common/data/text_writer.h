// Writes a text file, compressed if its name says so: .gz or .zst.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

// Text is written under the name with ".tmp" behind it, and Finish() renames the file, so that an
// incomplete file never looks complete. What is no regular file (/dev/stdout, a pipe) is written in
// place. One thread uses an object.
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
  TextWriter(std::string path, std::string temporary, std::unique_ptr<Encoder> encoder);

  std::string path_;
  std::string temporary_;  // empty: written in place
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace dslide
