// A file of lines that grows while a run lasts, as metrics.jsonl.
#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"

namespace dslide {

// Used by one thread.
class LineFile {
 public:
  // Opens the file, and goes on with one that is there. state() says whether that worked.
  explicit LineFile(std::string path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Names the file and why it cannot be opened.
  const Status& state() const { return state_; }
  // Appends a line, whole or not at all. What cannot be written (a full disk) is left out, and the
  // first such line is logged.
  void Append(std::string_view line);

 private:
  std::string path_;
  int file_;  // -1: not open
  Status state_;
  bool failing_ = false;
};

}  // namespace dslide
