// This process: what it used, and the signals that ask it to stop.
#pragma once

#include <cstdint>
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

uint32_t CoresOfThisMachine();
uint64_t MemoryOfThisMachine();

// A number that no other life of any process has.
Incarnation DrawIncarnation();

// A clock that never goes back.
int64_t MonotonicMillis();
int64_t MonotonicMicros();

// Dies with its parent: SIGTERM comes when the process that started this one is gone.
// Launchers call it in the child between fork and exec.
void DieWithParent();

// SIGINT and SIGTERM as a file descriptor. Create it before any thread, one a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }  // readable when a signal is waiting
  // Whether a signal came since the last call.
  bool Take();

 private:
  int fd_;
};

}  // namespace dslide
