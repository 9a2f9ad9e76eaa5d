// How far a command is in a long file, on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace dslide {

// Nothing is shown in the first seconds; then a line on a terminal that is written anew each
// second, elsewhere a line every half minute. The destructor clears the terminal's line. One thread
// uses an object.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(uint64_t samples);

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  int64_t next_ms_;
};

}  // namespace dslide
