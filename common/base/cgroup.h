// CPU and memory limits of a process's control groups (cgroups). A limit applies to a group and to
// all groups inside it, so the lowest limit on the path to the root counts.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace dslide
