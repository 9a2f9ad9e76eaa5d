// A new directory, removed with its contents by the destructor.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace dslide {

class TemporaryDirectory {
 public:
  // The directory's name starts with `prefix`; it lies in TMPDIR or /tmp.
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

  bool ok() const { return !path_.empty(); }  // whether it was created
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dslide
