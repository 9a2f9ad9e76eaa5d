// Processes that may run on one CPU of a machine with more count one core, and start one executor.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/cluster/cluster.h"
#include "tests/support/one_cpu.h"

namespace dslide::one_cpu_test {
namespace {

TEST_CASE("with one CPU allowed, dslide doctor says one core") {
  TestRun run;
  const OneCpu one;
  REQUIRE(run.Run("dslide", {"doctor", "--json"}) == 0);
  const auto doctor = nlohmann::json::parse(run.last_output());
  const auto& findings = doctor["findings"];
  const auto cores =
      std::ranges::find(findings, "cores", [](const auto& finding) { return finding["check"]; });
  REQUIRE(cores != findings.end());
  CHECK((*cores)["what"].get<std::string>().starts_with("1"));
}

TEST_CASE("with one CPU allowed, a launched server has one executor") {
  TestRun run;
  const OneCpu one;
  const auto train = run.Train({"--set", "train.epochs=1", "--set", "cluster.executors=0"});
  REQUIRE(train->Wait() == 0);
  CHECK(Contains(ReadFile(run.run_directory() + "/config.ini"), "\nexecutors = 1\n"));
}

}  // namespace
}  // namespace dslide::one_cpu_test
