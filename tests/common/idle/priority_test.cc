#include "common/idle/priority.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cgroup.h"

namespace dslide::priority_test {
namespace {

// CPUs that a child process uses after LimitCores(cores).
uint32_t CoresAfterLimit(uint32_t cores) {
  const pid_t child = fork();
  if (child == 0) {
    LimitCores(cores);
    _exit(static_cast<int>(AllowedCpus()));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return static_cast<uint32_t>(WEXITSTATUS(status));
}

TEST_CASE(
    "a process uses the cores that it is limited to; 0 and more than there are change nothing") {
  const uint32_t all = AllowedCpus();
  CHECK(CoresAfterLimit(1) == 1);
  CHECK(CoresAfterLimit(0) == all);
  CHECK(CoresAfterLimit(all) == all);
  CHECK(CoresAfterLimit(4096) == all);
}

}  // namespace
}  // namespace dslide::priority_test
