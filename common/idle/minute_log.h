// Lines for the log of a process that nobody watches. Pure: times are passed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dslide {

// At most one line a minute: the newest of those that came too early is kept until the minute is
// over, and then says how old it is. A line that says what was said last is dropped.
class MinuteLog {
 public:
  static constexpr int64_t kEveryMs = 60'000;
  // The line to be logged now; "": none.
  std::string Note(const std::string& line, int64_t now_ms);
  std::string Due(int64_t now_ms);
  // The line that is kept, whether it is due or not; "": none.
  std::string Last(int64_t now_ms);

 private:
  std::optional<int64_t> said_ms_;
  std::string said_;
  std::string kept_;
  int64_t kept_ms_ = 0;
};

}  // namespace dslide
