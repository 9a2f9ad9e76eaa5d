// The events of a simulation, one line each. Off unless a seed is replayed: a line costs more than
// the event.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "tests/simulation/world/sim_clock.h"

namespace dslide::sim {

class SimTrace {
 public:
  SimTrace(const SimClock* clock, std::FILE* out) : clock_(clock), out_(out) {}

  bool on() const { return out_ != nullptr; }

  template <typename... Args>
  void Note(const std::string& who, fmt::format_string<Args...> format, Args&&... args) {
    if (!on()) return;
    Write(who, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void Write(const std::string& who, const std::string& line) {
    const double ms = static_cast<double>(clock_->now_us()) / kMs;
    std::fputs(fmt::format("{:12.3f} ms  {:<12} {}\n", ms, who, line).c_str(), out_);
  }

  const SimClock* clock_;
  std::FILE* out_;  // null: off
};

}  // namespace dslide::sim
