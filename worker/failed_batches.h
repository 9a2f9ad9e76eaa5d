// What a worker says of batches that end before they are done: the first at once, those of the
// minute after it in one line. Nothing is lost with them, and under load they may be many. Pure:
// time is passed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dslide {

class FailedBatches {
 public:
  static constexpr int64_t kEveryMs = 60'000;

  // `line`: of one batch. What is to be logged; nullopt: it is counted.
  std::optional<std::string> Add(const std::string& line, int64_t now_ms);
  // The line about those that were counted, once their minute is over; nullopt: none is due.
  std::optional<std::string> Due(int64_t now_ms);

 private:
  std::optional<int64_t> said_ms_;
  uint64_t counted_ = 0;
  std::string last_;
};

}  // namespace dslide
