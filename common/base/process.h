// This process: what it used, and the signals that ask it to stop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/ids.h"

namespace dslide {

struct ProcessUsage {
  double cpu_seconds = 0;  // user and system
  uint64_t peak_rss_bytes = 0;
};
ProcessUsage UsageOfThisProcess();

// CPU time of the calling thread.
double ThreadCpuSeconds();

// Of the machine, or what the cgroup lets this process use of it.
uint32_t CoresOfThisMachine();  // rounded up
uint64_t MemoryOfThisMachine();

// A number that no other life of any process has.
Incarnation DrawIncarnation();

// A clock that never goes back.
int64_t MonotonicMillis();
int64_t MonotonicMicros();

// A clock of the time in which this process could run. A loop that reads it at least every second
// does not see a suspension (SIGSTOP, a machine that sleeps): it is as if nobody had been silent
// meanwhile. Owned by the loop's thread.
class AwakeClock {
 public:
  int64_t Micros() { return At(MonotonicMicros()); }
  int64_t Millis() { return Micros() / 1000; }
  // The same, given what the monotonic clock says.
  int64_t At(int64_t monotonic_us);

 private:
  int64_t last_us_ = 0;    // of the monotonic clock
  int64_t asleep_us_ = 0;  // in all
};

// Whether to say that a peer is silent. Pure: times in milliseconds, of one clock.
class SilenceReport {
 public:
  static constexpr int64_t kEveryMs = 30'000;
  // `heard_ms`: when the peer was heard last, or the wait for it began.
  bool Due(int64_t heard_ms, int64_t now_ms) {
    if (now_ms - std::max(heard_ms, said_ms_) < kEveryMs) return false;
    said_ms_ = now_ms;
    return true;
  }

 private:
  int64_t said_ms_ = 0;
};

// Dies with its parent: SIGTERM comes when the process that started this one is gone.
// Launchers call it in the child between fork and exec.
void DieWithParent();

// The signals that ask this process to stop, as a file descriptor: SIGINT, SIGTERM, and SIGHUP (a
// terminal that closes) unless it is ignored already, as nohup does. SIGPIPE is ignored from then
// on: who writes to a closed pipe gets an error. Create it before any thread, one a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }  // readable when a signal is waiting
  // Process managers signal a process and then its group: what comes within this time of a signal
  // that counted is the same one.
  static constexpr int64_t kSameMs = 1000;

  // Whether a signal that counts came since the last call.
  bool Take() { return TakeAt(MonotonicMillis()); }
  // The same, given what the monotonic clock says.
  bool TakeAt(int64_t now_ms);

 private:
  int fd_;
  std::optional<int64_t> counted_ms_;
};

}  // namespace dslide
