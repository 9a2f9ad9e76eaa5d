#include "tools/dslide/cluster/run_lock.h"

#include <doctest/doctest.h>

#include "tests/support/temp_directory.h"

namespace dslide::run_lock_test {
namespace {

TEST_CASE("run lock: one process at a time has a run directory") {
  const TempDirectory run;
  {
    const Result<RunLock> first = RunLock::Take(run.path());
    REQUIRE(first.ok());
    const Result<RunLock> second = RunLock::Take(run.path());
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().kind == ErrorKind::kTryLater);
    CHECK(second.error().message == run.path() + ": another dslide train works there");
  }
  CHECK(RunLock::Take(run.path()).ok());
  CHECK_FALSE(RunLock::Take(run.path() + "/none").ok());
}

}  // namespace
}  // namespace dslide::run_lock_test
