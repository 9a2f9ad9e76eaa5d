// Limits the lines of a log that a peer or a changing state can repeat without end. Pure: time is
// passed in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/log/event.h"

namespace dslide {

// LineLimit permits some lines at once, then one line every interval. A line after suppressed ones
// ends with their number, and a line that had to wait ends with its age: "line (and 7 before, 58 s
// ago)". Two lines are kept: the last permitted line and the newest suppressed one.
class LineLimit {
 public:
  explicit LineLimit(uint32_t max_burst = 1, int64_t interval_ms = 1000);

  // The line to log now; nullopt: the line is suppressed.
  std::optional<Event> Admit(Event line, int64_t now_ms);
  // As Admit(), for lines whose texts name the current state. Once the state is the last logged one
  // again, the suppressed lines are obsolete and are dropped.
  std::optional<Event> AdmitState(Event line, int64_t now_ms);

  // The newest suppressed line once an interval is over, otherwise nullopt.
  std::optional<Event> Due(int64_t now_ms);
  // As Due(), however early: for the end of a process.
  std::optional<Event> Flush(int64_t now_ms);

 private:
  void Refill(int64_t now_ms);

  uint32_t max_burst_;
  int64_t interval_ms_;
  uint32_t free_;  // lines that may be logged now
  int64_t refilled_ms_ = 0;
  std::string logged_;           // the text of the last logged line
  std::optional<Event> newest_;  // the newest of the waiting lines
  int64_t newest_ms_ = 0;
  uint64_t waiting_ = 0;  // lines since the last logged one
};

// A LineLimit for each kind of event.
class EventLimit {
 public:
  explicit EventLimit(uint32_t max_burst = 1) : max_burst_(max_burst) {}

  std::optional<Event> Admit(Event event, int64_t now_ms);

 private:
  uint32_t max_burst_;
  std::map<const EventKind*, LineLimit> limits_;
};

}  // namespace dslide
