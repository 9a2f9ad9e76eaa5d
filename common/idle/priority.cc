#include "common/idle/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "common/base/cgroup.h"

namespace dslide {
namespace {

// <linux/ioprio.h> is not in every libc's headers.
constexpr int kIoprioWhoProcess = 1;
constexpr int kIoprioClassShift = 13;
constexpr int kIoprioBestEffort = 2 << kIoprioClassShift | 7;  // the lowest of eight
constexpr int kIoprioIdle = 3 << kIoprioClassShift;

constexpr int kIdleNice = 19;
constexpr int kLowNice = 10;

bool HasAutogroups() {
  int enabled = 0;
  return std::ifstream("/proc/sys/kernel/sched_autogroup_enabled") >> enabled && enabled == 1;
}

// The nice value of this session's autogroup. Others of the session get it too, so it is lowered
// only by a process that leads one: a service, or a command started by setsid.
std::string LowerAutogroup(int nice) {
  if (!HasAutogroups()) return "";
  if (getsid(0) != getpid()) {
    return "the kernel divides the CPU between sessions (autogroups): start the worker in a "
           "session "
           "of its own (setsid, or a service), or it gets the share of a whole session";
  }
  std::ofstream file("/proc/self/autogroup");
  file << nice << std::flush;
  return file ? "" : "the session's autogroup cannot be lowered";
}

}  // namespace

std::string LowerPriority(Priority priority) {
  if (priority == Priority::kNormal) return "";
  const bool idle = priority == Priority::kIdle;
  const int nice = idle ? kIdleNice : kLowNice;
  (void)setpriority(PRIO_PROCESS, 0, nice);
  (void)syscall(SYS_ioprio_set, kIoprioWhoProcess, 0, idle ? kIoprioIdle : kIoprioBestEffort);
  const sched_param none{};
  const bool refused = idle && sched_setscheduler(0, SCHED_IDLE, &none) != 0;
  if (refused) return "SCHED_IDLE is refused here; nice 19 is in its place";
  return LowerAutogroup(nice);
}

void LimitCores(uint32_t cores) {
  std::vector<cpu_set_t> mask = AffinityMask();
  if (cores == 0 || mask.empty()) return;
  const size_t bytes = mask.size() * sizeof(cpu_set_t);
  uint32_t left = AllowedCpus();
  for (size_t cpu = 0; left > cores; ++cpu) {
    if (!CPU_ISSET_S(cpu, bytes, mask.data())) continue;
    CPU_CLR_S(cpu, bytes, mask.data());
    --left;
  }
  (void)sched_setaffinity(0, bytes, mask.data());
}

}  // namespace dslide
