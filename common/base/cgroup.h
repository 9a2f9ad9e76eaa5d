// What the control groups (cgroups) of a process let it use. A limit holds for a group and all
// groups in it, so the least one on the way up counts.
#pragma once

#include <cstdint>
#include <string>

namespace dslide {

struct CgroupLimits {
  uint64_t memory_bytes = 0;  // 0: no limit
  double cores = 0;           // CPU seconds a second; 0: no limit
};

// Of the groups that `groups` (the text of /proc/PID/cgroup) names, versions 1 and 2, mounted at
// `root`. Groups that are not to be seen there are passed over: within a container its own group is
// the root of what is mounted.
CgroupLimits ReadCgroupLimits(const std::string& groups, const std::string& root);

CgroupLimits CgroupLimitsOfThisProcess();

}  // namespace dslide
