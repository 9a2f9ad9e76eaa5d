#include "tools/dslide/cluster/process_count.h"

#include <doctest/doctest.h>

#include "tests/support/results.h"

namespace dslide::process_count_test {
namespace {

constexpr uint64_t kGb = uint64_t{1} << 30;

TEST_CASE("process count: more processes than CPUs can use are said, a few are not") {
  CHECK(JudgeProcesses({1, 1, 2, 4 * kGb})->empty());
  CHECK(JudgeProcesses({8, 8, 2, 4 * kGb})->empty());
  CHECK(JudgeProcesses({64, 64, 16, 64 * kGb})->empty());
  CHECK(*JudgeProcesses({9, 1, 2, 4 * kGb}) ==
        "9 servers and 1 worker share 2 CPUs of this machine: as many servers and workers as CPUs "
        "use all of it, and every batch waits for every server (--servers, --workers)");
  CHECK_FALSE(JudgeProcesses({1, 9, 2, 4 * kGb})->empty());
  CHECK_FALSE(JudgeProcesses({5, 0, 1, 4 * kGb})->empty());
}

TEST_CASE("process count: what a machine has no memory for is refused") {
  CHECK(MessageOf(JudgeProcesses({300, 2, 2, 8 * kGb})) ==
        "300 servers and 2 workers take 12940 MB before they hold a model, and this machine has "
        "8192 MB; lower --servers (cluster.servers) and --workers (cluster.workers), or start some "
        "on other machines");
  CHECK(JudgeProcesses({300, 2, 2, 32 * kGb}).ok());
}

}  // namespace
}  // namespace dslide::process_count_test
