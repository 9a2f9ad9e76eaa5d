// A directory of a test's own, removed with everything in it at the end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "common/base/check.h"

namespace dslide {

class TempDirectory {
 public:
  TempDirectory() : path_(std::filesystem::temp_directory_path() / "dslide-test-XXXXXX") {
    DSLIDE_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dslide
