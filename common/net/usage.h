// The resource usage that a member reports to the scheduler.
#pragma once

#include "common/base/process.h"
#include "common/wire/messages.h"

namespace dslide {

// A heartbeat with the process's CPU time and memory, and the bytes that its sockets moved.
inline Heartbeat UsageHeartbeat(uint64_t bytes_sent, uint64_t bytes_received) {
  const ProcessUsage usage = UsageOfThisProcess();
  Heartbeat beat;
  beat.cpu_seconds = usage.cpu_seconds;
  beat.peak_rss_bytes = usage.peak_rss_bytes;
  beat.bytes_sent = bytes_sent;
  beat.bytes_received = bytes_received;
  return beat;
}

}  // namespace dslide
