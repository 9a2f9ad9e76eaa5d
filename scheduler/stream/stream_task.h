// Decides what the feeder's thread does next: read from the source, make a segment, deliver one.
//
// Pure: the thread describes its situation and carries the task out.
#pragma once

#include <cstdint>

namespace dslide {

enum class StreamTask : uint8_t {
  kStore,    // the segment that was made last, before it is trained
  kMake,     // the next segment from the waiting lines
  kDeliver,  // the segment that was made ahead
  kReload,   // a segment that was delivered before: the run was rolled back, or resumed
  kEnd,      // the stream: no segment comes any more
  kRead,     // from the source
  kAwait,    // orders
};

struct StreamSituation {
  uint32_t wanted = 0;     // the segment that training waits for; 0: none
  uint32_t newest = 0;     // the segment that was made last; 0: none
  bool is_made = false;    // the newest one is made and not stored
  bool is_ahead = false;   // the newest one is stored and not delivered
  bool has_lines = false;  // of the next segment
  bool is_full = false;    // the next segment needs no more lines
  bool is_old = false;     // its first line came train.segment_s ago
  bool ended = false;      // nothing more is read
  bool failed = false;     // nothing more is made
};

StreamTask NextTask(const StreamSituation& now);

}  // namespace dslide
