#include "common/app/open_files.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dslide::open_files_test {
namespace {

// Runs `check` in a child with these limits, because a process cannot raise its hard limit again.
bool HoldsWithLimits(rlim_t soft, rlim_t hard, bool (*check)()) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    _exit(setrlimit(RLIMIT_NOFILE, &limit) == 0 && check() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("open files: the limit is raised as far as the process may") {
  CHECK(HoldsWithLimits(20, 200, [] {
    rlimit now{};
    return RaiseOpenFileLimit().ok() && getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 200;
  }));
}

TEST_CASE("open files: too few are refused by one line") {
  CHECK(HoldsWithLimits(20, 20, [] {
    const Status refused = RaiseOpenFileLimit();
    return !refused.ok() && refused.error().kind == ErrorKind::kBadInput &&
           refused.error().message ==
               "this process may open 20 files and needs 128; raise the limit (ulimit -n, "
               "LimitNOFILE)";
  }));
  CHECK(HoldsWithLimits(20, kMinOpenFiles, [] { return RaiseOpenFileLimit().ok(); }));
}

}  // namespace
}  // namespace dslide::open_files_test
