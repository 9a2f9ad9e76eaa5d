// A file that has its name once it is complete.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"

namespace dslide {

// Whether both are one regular file, or would be written under one name. Either may be empty.
bool AreOneFile(const std::string& a, const std::string& b);

// Text is written under a temporary name, and Finish() renames the file, so that an incomplete file
// never looks complete. What is no regular file (/dev/stdout, a pipe) is written in place. One
// thread uses an object.
class OutputFile {
 public:
  // Errors (kBadInput) name the path. An empty path: nothing is written.
  static Result<OutputFile> Create(const std::string& path);
  static OutputFile StandardOutput();
  OutputFile(OutputFile&& other) noexcept;
  ~OutputFile();  // removes a file that is not finished

  bool IsOpen() const { return out_ != nullptr; }
  void Write(std::string_view text);  // Finish() reports a failure
  Status Finish();

 private:
  OutputFile(std::string path, std::string temporary, std::FILE* out)
      : path_(std::move(path)), temporary_(std::move(temporary)), out_(out) {}

  std::string path_;
  std::string temporary_;  // empty: not a regular file, written in place
  std::FILE* out_;         // null: nothing is written, or finished
  int error_ = 0;          // errno of the first failure
};

}  // namespace dslide
