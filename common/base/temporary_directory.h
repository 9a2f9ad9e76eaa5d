// A directory of one's own for a while, removed with everything in it at the end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace dslide {

class TemporaryDirectory {
 public:
  // `prefix` begins its name, below TMPDIR or /tmp.
  explicit TemporaryDirectory(const std::string& prefix)
      : path_((std::filesystem::temp_directory_path() / (prefix + "XXXXXX")).string()) {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (ok()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  bool ok() const { return !path_.empty(); }  // whether it could be made
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dslide
