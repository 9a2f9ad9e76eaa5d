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

// Whether the name is that of standard output: -, /dev/stdout, /dev/fd/1.
bool IsStandardOutput(const std::string& path);

// Whether bytes go straight to what has this name: a pipe, a device, standard output, also where
// that is a file. A file must not be renamed to such a name, which would put the file in the
// device's place.
bool IsWrittenInPlace(const std::string& path);
// kBadInput "path: is no regular file (`what` cannot be written to it)" if it is written in place.
Status CheckRegularOutput(const std::string& path, std::string_view what);

// Bytes are written under a temporary name, and Finish() renames the file, so that an incomplete
// file never looks complete. Of several that write one file at once each writes its own, and the
// last one that finishes stays. What IsWrittenInPlace is written in place; - is standard output.
// One thread uses an object.
class OutputFile {
 public:
  // Errors (kBadInput) name the path. An empty path: nothing is written.
  static Result<OutputFile> Create(const std::string& path);
  // A file that only its owner may read and write, from its first byte on. What root writes belongs
  // to whom the file belonged before, or its directory.
  static Result<OutputFile> CreateSecret(const std::string& path);
  static OutputFile StandardOutput();
  OutputFile(OutputFile&& other) noexcept;
  ~OutputFile();  // removes a file that is not finished

  const std::string& path() const { return path_; }
  bool IsOpen() const { return out_ != nullptr; }
  void Write(std::string_view bytes);  // Finish() reports a failure
  // Errors (kFailed) name the path; nothing is left of the file then.
  Status Finish();
  // The same, and on the disk: after the machine has lost power a reader finds the old file or the
  // new one.
  Status FinishSynced();

 private:
  OutputFile(std::string path, std::string temporary, std::FILE* out)
      : path_(std::move(path)), temporary_(std::move(temporary)), out_(out) {}

  void Check(bool done);

  std::string path_;
  std::string temporary_;  // empty: written in place
  std::FILE* out_;         // null: nothing is written, or finished
  int error_ = 0;          // errno of the first failure
};

}  // namespace dslide
