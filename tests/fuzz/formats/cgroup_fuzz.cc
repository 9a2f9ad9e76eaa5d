// What the kernel says of a process's control groups: its groups, then a line for each limit.
#include "common/base/cgroup.h"

#include <filesystem>

#include "tests/fuzz/fuzz_target.h"

namespace dslide::cgroup_fuzz {
namespace {

using fuzz::Inputs;

// The files of limits, of versions 1 and 2, in the mounted root; others are not there.
constexpr const char* kFiles[] = {"memory.max", "cpu.max", "memory/memory.limit_in_bytes",
                                  "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"};

bool Run(std::string_view input) {
  const std::string& root = fuzz::InputDirectory();
  std::filesystem::create_directory(root + "/memory");
  std::filesystem::create_directory(root + "/cpu");
  std::string_view rest = input;
  for (const char* file : kFiles) {
    const size_t end = rest.find('\n');
    (void)fuzz::InputFile(rest.substr(0, end), file);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  const CgroupLimits limits = ReadCgroupLimits(std::string(rest), root);
  DSLIDE_CHECK(limits.cores >= 0);
  return limits.cores > 0 || limits.memory_bytes > 0;
}

Inputs Seeds() {
  return {"1000000\n50000 100000\n0\n0\n0\n0::/a/b\n", "max\nmax 100000\n\n\n\n0::/\n",
          "\n\n4096\n-1\n100000\n4:cpu,cpuacct:/x\n5:memory:/x/y\n",
          "\n\n9223372036854771712\n25000\n100000\n4:cpu:/\n5:memory:/\n"};
}

const fuzz::Entered kEntered({"cgroup", Run, Seeds});

}  // namespace
}  // namespace dslide::cgroup_fuzz
