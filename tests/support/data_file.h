// A file of data in a directory of its own.
#pragma once

#include <fstream>
#include <string>

#include "tests/support/temp_directory.h"

namespace dslide {

class DataFile {
 public:
  explicit DataFile(const std::string& text) : path_(directory_.path() + "/data") {
    std::ofstream(path_, std::ios::binary) << text;
  }
  const std::string& path() const { return path_; }

 private:
  TempDirectory directory_;
  std::string path_;
};

}  // namespace dslide
