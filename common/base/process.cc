#include "common/base/process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "common/base/cgroup.h"
#include "common/base/check.h"

namespace dslide {

ProcessUsage UsageOfThisProcess() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime),
          static_cast<uint64_t>(usage.ru_maxrss) * 1024};
}

double ThreadCpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

uint32_t CoresOfThisMachine() {
  const uint32_t cores = AllowedCpus();
  const double quota = CgroupLimitsOfThisProcess().cores;
  return quota > 0 ? std::min(cores, static_cast<uint32_t>(std::ceil(quota))) : cores;
}

uint64_t MemoryOfThisMachine() {
  const uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  const uint64_t limit = CgroupLimitsOfThisProcess().memory_bytes;
  return limit > 0 ? std::min(bytes, limit) : bytes;
}

Incarnation DrawIncarnation() {
  std::random_device device;
  uint64_t value = 0;
  while (value == 0) value = (uint64_t{device()} << 32) | device();
  return {value};
}

int64_t MonotonicMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t MonotonicMillis() { return MonotonicMicros() / 1000; }

int64_t SecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t AwakeClock::At(int64_t monotonic_us) {
  constexpr int64_t kLongestAwakeUs = 1'500'000;  // between two readings
  constexpr int64_t kPauseUs = 100'000;           // a longer gap counts as this
  const int64_t gap_us = monotonic_us - last_us_;
  if (last_us_ > 0 && gap_us > kLongestAwakeUs) asleep_us_ += gap_us - kPauseUs;
  last_us_ = monotonic_us;
  return monotonic_us - asleep_us_;
}

void DieWithParent() { prctl(PR_SET_PDEATHSIG, SIGTERM); }

StopSignals::StopSignals(HangUp hang_up) : hang_up_reloads_(hang_up == HangUp::kReloads) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup;
  DSLIDE_CHECK(sigaction(SIGHUP, nullptr, &hangup) == 0);
  if (hangup.sa_handler != SIG_IGN || hang_up_reloads_) sigaddset(&set, SIGHUP);
  DSLIDE_CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  DSLIDE_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  DSLIDE_CHECK(fd_ >= 0);
}

StopSignals::~StopSignals() { close(fd_); }

bool StopSignals::TakeAt(int64_t now_ms) {
  signalfd_siginfo info;
  bool any = false;
  while (read(fd_, &info, sizeof info) == sizeof info) {
    const bool reloads = hang_up_reloads_ && info.ssi_signo == SIGHUP;
    (reloads ? reload_ : any) = true;
  }
  if (!any || (counted_ms_ && now_ms - *counted_ms_ < kSameMs)) return false;
  counted_ms_ = now_ms;
  return true;
}

}  // namespace dslide
