// What dslide doctor says of machines: any but this one.
#include "tools/dslide/doctor/machine.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tools/dslide/doctor/finding.h"

namespace dslide::machine_test {
namespace {

MachineFacts Good() {
  MachineFacts facts;
  facts.kernels = "avx2";
  facts.processors = facts.allowed = 8;
  facts.memory_bytes = facts.available_bytes = uint64_t{32} << 30;
  facts.huge_pages = "madvise";
  facts.clock_set = true;
  facts.open_files = 65536;
  facts.steal = 0.0;
  facts.load = 1;
  return facts;
}

Finding Of(const MachineFacts& facts, const std::string& check) {
  Findings findings;
  JudgeMachine(facts, &findings);
  const auto found = std::ranges::find(findings.all(), check, &Finding::check);
  return found == findings.all().end() ? Finding() : *found;
}

TEST_CASE("doctor: a good machine has nothing to be mended") {
  Findings findings;
  JudgeMachine(Good(), &findings);
  CHECK(findings.all().size() >= 6);
  CHECK(findings.Count(Finding::Level::kFine) == findings.all().size());
}

TEST_CASE("doctor: old processors, busy hosts, wrong clocks and low limits are named") {
  MachineFacts facts = Good();
  facts.kernels = "scalar";
  CHECK(Of(facts, "processor").level == Finding::Level::kNote);
  CHECK(Of(facts, "processor").mend.find("AVX2") != std::string::npos);
  facts.steal = 0.3;
  CHECK(Of(facts, "steal time").what == "30 % of CPU time");
  facts.clock_set = false;
  CHECK(Of(facts, "clock").level == Finding::Level::kNote);
  facts.open_files = 100;
  CHECK(Of(facts, "files").level == Finding::Level::kNote);
}

TEST_CASE("doctor: the cores are those that the process may use") {
  MachineFacts facts = Good();
  CHECK(Of(facts, "cores").what == "8");
  facts.allowed = 1;
  CHECK(Of(facts, "cores").what ==
        "1 of 8 by the CPU affinity (taskset, a container's cpuset, a batch system)");
  facts.allowed = 4;
  facts.core_limit = 2.5;
  CHECK(Of(facts, "cores").what == "2.5 of 8 by the cgroup's limit");
  facts.core_limit = 6;
  CHECK(Of(facts, "cores").what.starts_with("4 of 8 by the CPU affinity"));
  CHECK(Of(facts, "cores").level == Finding::Level::kFine);
}

TEST_CASE("doctor: what is not known is not judged") {
  MachineFacts facts = Good();
  facts.steal.reset();
  facts.load.reset();
  facts.clock_set.reset();
  CHECK(Of(facts, "clock").check.empty());
  CHECK(Of(facts, "steal time").check.empty());
}

TEST_CASE("doctor: findings as text and JSON") {
  Findings findings;
  findings.Fine("cores", "8");
  findings.Problem("disk", "full", "make room");
  CHECK(findings.Text() ==
        "ok       cores  8\n"
        "PROBLEM  disk   full\n"
        "                -> make room\n");
  CHECK(findings.Json().find("\"problems\": 1") != std::string::npos);
}

}  // namespace
}  // namespace dslide::machine_test
