// Bytes that wait on the disk beside an output. The file has no name, so that nothing is left of it
// however the process ends.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"

namespace dslide {

class ScratchFile {
 public:
  // In the directory of `path`, or in that of temporary files if `path` IsWrittenInPlace. Errors
  // (kBadInput) name the directory.
  static Result<ScratchFile> Beside(const std::string& path);

  void Write(std::string_view bytes);  // ReadAll() and Release() report a failure
  // REQUIRES the bytes to lie in what was written.
  void Overwrite(uint64_t at, std::string_view bytes);
  uint64_t size() const { return size_; }
  // Calls take() with all bytes, part by part.
  Status ReadAll(const std::function<void(std::string_view)>& take);
  // The file, read from its beginning on, which the caller closes.
  Result<std::FILE*> Release() &&;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  ScratchFile(std::string directory, std::FILE* file)
      : directory_(std::move(directory)), file_(file) {}

  Error Failure() const;
  void Check(bool done);

  std::string directory_;
  std::unique_ptr<std::FILE, Close> file_;
  uint64_t size_ = 0;
  int error_ = 0;  // errno of the first failure
};

}  // namespace dslide
