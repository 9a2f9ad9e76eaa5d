#include "tools/dslide/cluster/run_access.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::run_access_test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("run access: nobody answers of a run that was stopped") {
  const TempDirectory run;
  std::ofstream(run.path() + "/scheduler.address") << "tcp://10.0.0.2:7700\n";
  std::ofstream(run.path() + "/config.ini") << "";
  std::ofstream(run.path() + "/summary.json") << R"({"outcome": "stopped on request"})";
  CHECK(MessageOf(RunAccess(run.path(), "", "observer")).find("ended early (stopped on request)") !=
        std::string::npos);
}

TEST_CASE("run access: a run whose ledger nobody holds here is asked at its address") {
  const TempDirectory run;
  std::ofstream(run.path() + "/scheduler.address") << "tcp://10.0.0.2:7700\n";
  std::ofstream(run.path() + "/config.ini") << "";
  fs::create_directories(run.path() + "/ledger");
  const auto access = Ok(RunAccess(run.path(), "", "observer"));
  CHECK(access.address == "tcp://10.0.0.2:7700");
}

}  // namespace
}  // namespace dslide::run_access_test
