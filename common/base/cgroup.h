// CPU and memory limits of a process: the CPUs that it may run on, and its control groups
// (cgroups). A limit applies to a group and to all groups inside it, so the lowest limit on the
// path to the root counts.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dslide {

struct CgroupLimits {
  uint64_t memory_bytes = 0;  // 0: no limit
  double cores = 0;           // CPU seconds a second; 0: no limit
};

// The limits of the groups named in `groups` (the text of /proc/PID/cgroup), versions 1 and 2,
// mounted at `root`. Groups that are not visible there are skipped: inside a container, the mounted
// root is the container's own group.
CgroupLimits ReadCgroupLimits(const std::string& groups, const std::string& root);

CgroupLimits CgroupLimitsOfThisProcess();

// The affinity mask of the calling thread, CPU_SETSIZE CPUs an element (CPU_ISSET_S reads it):
// taskset, a container's cpuset, static CPUs of Kubernetes and the binding of a batch system. Empty
// if the kernel does not report it.
std::vector<cpu_set_t> AffinityMask();

// The number of CPUs in AffinityMask(), at least 1; that of the machine if the mask is empty.
uint32_t AllowedCpus();

}  // namespace dslide
