// This process: its resources, its clocks, and the signals that ask it to stop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/ids.h"

namespace dslide {

struct ProcessUsage {
  double cpu_seconds = 0;  // user and system
  uint64_t peak_rss_bytes = 0;
};
ProcessUsage UsageOfThisProcess();

// CPU time of the calling thread.
double ThreadCpuSeconds();

// The number of CPUs that this process may run on, and the machine's memory; each is the cgroup's
// limit if that is lower.
uint32_t CoresOfThisMachine();  // rounded up
uint64_t MemoryOfThisMachine();

// A random number, unique to this life of this process.
Incarnation DrawIncarnation();

// A clock that never goes back.
int64_t MonotonicMillis();
int64_t MonotonicMicros();

// The time of day (UTC), which may be set back.
int64_t SecondsSince1970();

// A clock that stands still while the process is suspended (SIGSTOP, a sleeping machine), so that
// peers do not seem silent afterwards. A loop must read it at least every second. Owned by the
// loop's thread.
class AwakeClock {
 public:
  int64_t Micros() { return At(MonotonicMicros()); }
  int64_t Millis() { return Micros() / 1000; }
  // The same at a given time of the monotonic clock.
  int64_t At(int64_t monotonic_us);

 private:
  int64_t last_us_ = 0;    // last reading of the monotonic clock
  int64_t asleep_us_ = 0;  // total time suspended
};

// Decides when to report that a peer is silent. Pure: times in milliseconds, of one clock.
class SilenceReport {
 public:
  static constexpr int64_t kEveryMs = 30'000;
  // `heard_ms`: when the peer's last message arrived, or when the wait for the peer began.
  bool Due(int64_t heard_ms, int64_t now_ms) {
    if (now_ms - std::max(heard_ms, said_ms_) < kEveryMs) return false;
    said_ms_ = now_ms;
    return true;
  }

 private:
  int64_t said_ms_ = 0;
};

// This process gets SIGTERM when its parent ends. Launchers call it in the child between fork and
// exec.
void DieWithParent();

// The signals that ask this process to stop, as a file descriptor: SIGINT, SIGTERM, and SIGHUP (a
// terminal that closes) unless it is ignored already, as nohup does, or asks for something else.
// SIGPIPE is ignored from then on: writing to a closed pipe returns an error. Create one per
// process, before any thread.
class StopSignals {
 public:
  // What SIGHUP asks for: the end, or to read a file again (TakeReload()).
  enum class HangUp { kStops, kReloads };
  explicit StopSignals(HangUp hang_up = HangUp::kStops);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }  // readable when a signal is waiting
  // Process managers signal a process and then its group: a signal within this time of a counted
  // one repeats it and does not count.
  static constexpr int64_t kSameMs = 1000;

  // Whether a signal that counts arrived since the last call.
  bool Take() { return TakeAt(MonotonicMillis()); }
  // The same at a given time of the monotonic clock.
  bool TakeAt(int64_t now_ms);
  // Whether a signal that asks to read a file again was seen by Take() since the last call.
  bool TakeReload() { return std::exchange(reload_, false); }

 private:
  int fd_;
  bool hang_up_reloads_;
  bool reload_ = false;
  std::optional<int64_t> counted_ms_;
};

}  // namespace dslide
