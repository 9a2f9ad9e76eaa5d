#include "common/base/cgroup.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace dslide {
namespace {

// The number in a file; 0 if there is none or it means "no limit" ("max", -1).
double NumberIn(const std::string& path) {
  double number = 0;
  return std::ifstream(path) >> number && number > 0 ? number : 0;
}

void Least(double value, double* least) {
  if (value > 0 && (*least == 0 || value < *least)) *least = value;
}

// Calls `read` with the directories of `group` and of all its parent groups.
template <typename Read>
void ForEachAround(const std::string& mount, std::string group, Read read) {
  while (!group.empty() && group != "/") {
    read(mount + group);
    group.resize(group.rfind('/'));
  }
  read(mount);
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& groups, const std::string& root) {
  double memory = 0, cores = 0;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "4:cpu,cpuacct:/group", "0::/group"
    const size_t begin = line.find(':'), end = line.find(':', begin + 1);
    if (begin == std::string::npos || end == std::string::npos || line[end + 1] != '/') continue;
    const std::string controllers = line.substr(begin + 1, end - begin - 1);
    const std::string group = line.substr(end + 1);
    if (controllers.empty()) {
      ForEachAround(root, group, [&](const std::string& directory) {
        Least(NumberIn(directory + "/memory.max"), &memory);
        std::ifstream file(directory + "/cpu.max");  // "50000 100000"
        double quota = 0, period = 0;
        if (file >> quota >> period && period > 0) Least(quota / period, &cores);
      });
    }
    if (controllers == "memory") {
      ForEachAround(root + "/memory", group, [&](const std::string& directory) {
        Least(NumberIn(directory + "/memory.limit_in_bytes"), &memory);
      });
    }
    if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      ForEachAround(root + "/cpu", group, [&](const std::string& directory) {
        const double period = NumberIn(directory + "/cpu.cfs_period_us");
        if (period > 0) Least(NumberIn(directory + "/cpu.cfs_quota_us") / period, &cores);
      });
    }
  }
  constexpr double kNoLimit = 0x1p60;  // version 1 reports more where there is no limit
  return {memory < kNoLimit ? static_cast<uint64_t>(memory) : 0, cores};
}

CgroupLimits CgroupLimitsOfThisProcess() {
  std::ifstream file("/proc/self/cgroup");
  const std::string groups((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
  return ReadCgroupLimits(groups, "/sys/fs/cgroup");
}

std::vector<cpu_set_t> AffinityMask() {
  constexpr size_t kMaxSets = 64;
  // The kernel refuses a mask that is too small for the CPUs that the machine may have.
  for (std::vector<cpu_set_t> mask(1); mask.size() <= kMaxSets; mask.resize(2 * mask.size())) {
    if (sched_getaffinity(0, mask.size() * sizeof(cpu_set_t), mask.data()) == 0) return mask;
    if (errno != EINVAL) break;
  }
  return {};
}

uint32_t AllowedCpus() {
  const std::vector<cpu_set_t> mask = AffinityMask();
  const auto allowed =
      static_cast<uint32_t>(CPU_COUNT_S(mask.size() * sizeof(cpu_set_t), mask.data()));
  return std::max(1u, mask.empty() ? std::thread::hardware_concurrency() : allowed);
}

}  // namespace dslide
