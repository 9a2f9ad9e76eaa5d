#include "common/base/cgroup.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/base/process.h"
#include "tests/support/one_cpu.h"
#include "tests/support/temp_directory.h"

namespace dslide::cgroup_test {
namespace {

struct Mounted {
  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = directory.path() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  CgroupLimits Limits(const std::string& groups) const {
    return ReadCgroupLimits(groups, directory.path());
  }
  TempDirectory directory;
};

TEST_CASE("cgroup limits: the least of a group and of those around it, version 2") {
  const Mounted mounted;
  mounted.Put("cpu.max", "max 100000");
  mounted.Put("a/cpu.max", "50000 100000");
  mounted.Put("a/b/cpu.max", "200000 100000");
  mounted.Put("a/memory.max", "max");
  mounted.Put("a/b/memory.max", "1048576");
  CHECK(mounted.Limits("0::/a/b\n").cores == 0.5);
  CHECK(mounted.Limits("0::/a/b\n").memory_bytes == 1048576);
  CHECK(mounted.Limits("0::/a\n").memory_bytes == 0);
  CHECK(mounted.Limits("0::/\n").cores == 0);
}

TEST_CASE("cgroup limits: version 1, and a group that is not to be seen from within a container") {
  const Mounted mounted;
  mounted.Put("cpu/cpu.cfs_period_us", "100000");
  mounted.Put("cpu/cpu.cfs_quota_us", "-1");
  mounted.Put("cpu/box/cpu.cfs_period_us", "20000");
  mounted.Put("cpu/box/cpu.cfs_quota_us", "4000");
  mounted.Put("memory/memory.limit_in_bytes", "9223372036854771712");
  mounted.Put("memory/box/memory.limit_in_bytes", "4096");
  const CgroupLimits box = mounted.Limits("4:memory:/box\n2:cpu,cpuacct:/box\n1:name=x:/\n");
  CHECK(box.cores == 0.2);
  CHECK(box.memory_bytes == 4096);
  const CgroupLimits none = mounted.Limits("4:memory:/elsewhere/c1\n2:cpu:/elsewhere/c1\n");
  CHECK(none.cores == 0);
  CHECK(none.memory_bytes == 0);
}

TEST_CASE("cgroup limits: text that is none sets no limits") {
  const Mounted mounted;
  mounted.Put("cpu.max", "");
  mounted.Put("memory.max", "lots");
  for (const char* groups : {"", "\n", "0", "0:", "0::", "0::x", ":::", "0::/"}) {
    CHECK(mounted.Limits(groups).cores == 0);
    CHECK(mounted.Limits(groups).memory_bytes == 0);
  }
}

TEST_CASE("a process that may run on one CPU uses one, whatever the machine has") {
  const uint32_t before = AllowedCpus();
  CHECK(CoresOfThisMachine() <= before);
  {
    const OneCpu one;
    CHECK(AllowedCpus() == 1);
    CHECK(CoresOfThisMachine() == 1);
  }
  CHECK(AllowedCpus() == before);
}

TEST_CASE("the affinity mask has the CPUs that were set, and no others") {
  const OneCpu one;
  const std::vector<cpu_set_t> mask = AffinityMask();
  REQUIRE(!mask.empty());
  const size_t bytes = mask.size() * sizeof(cpu_set_t);
  CHECK(CPU_COUNT_S(bytes, mask.data()) == 1);
  CHECK(CPU_ISSET_S(static_cast<size_t>(sched_getcpu()), bytes, mask.data()));
}

}  // namespace
}  // namespace dslide::cgroup_test
