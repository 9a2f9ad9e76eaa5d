#include "tools/dslide/cluster/run_access.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_directory.h"

namespace dslide::run_access_test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("run access: an address, a run directory, or the file in it") {
  const TempDirectory run;
  CHECK(RunAccess("tcp://10.0.0.1:7700", "", "observer")->address == "tcp://10.0.0.1:7700");
  const auto nothing = RunAccess(run.path(), "", "observer");
  REQUIRE_FALSE(nothing.ok());
  CHECK(nothing.error().message.find("has no scheduler.address") != std::string::npos);
  std::ofstream(run.path() + "/scheduler.address") << "tcp://10.0.0.2:7700\n";
  CHECK(RunAccess(run.path(), "", "observer")->address == "tcp://10.0.0.2:7700");
  const auto file = RunAccess(run.path() + "/scheduler.address", "", "observer");
  CHECK(file->address == "tcp://10.0.0.2:7700");
  CHECK_FALSE(file->curve);
  const auto absent = RunAccess(run.path() + "/absent", "", "observer");
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.error().kind == ErrorKind::kBadInput);
  CHECK(absent.error().message.find("not a run directory or an address") != std::string::npos);
}

TEST_CASE("run access: nobody answers of a run that was stopped") {
  const TempDirectory run;
  std::ofstream(run.path() + "/scheduler.address") << "tcp://10.0.0.2:7700\n";
  std::ofstream(run.path() + "/config.ini") << "";
  std::ofstream(run.path() + "/summary.json") << R"({"outcome": "stopped on request"})";
  const auto access = RunAccess(run.path(), "", "observer");
  REQUIRE_FALSE(access.ok());
  CHECK(access.error().kind == ErrorKind::kBadInput);
  CHECK(access.error().message.find("ended early (stopped on request)") != std::string::npos);
}

TEST_CASE("run access: a run whose ledger nobody holds here is asked at its address") {
  const TempDirectory run;
  std::ofstream(run.path() + "/scheduler.address") << "tcp://10.0.0.2:7700\n";
  std::ofstream(run.path() + "/config.ini") << "";
  fs::create_directories(run.path() + "/ledger");
  const auto access = RunAccess(run.path(), "", "observer");
  REQUIRE(access.ok());
  CHECK(access->address == "tcp://10.0.0.2:7700");
}

TEST_CASE("run access: of a run with keys that of the role") {
  const TempDirectory run;
  std::ofstream(run.path() + "/scheduler.address") << "tcp://10.0.0.2:7700\n";
  fs::create_directories(run.path() + "/keys");
  const KeyPair scheduler = DrawKeyPair(), own = DrawKeyPair();
  REQUIRE(WriteKeyFile(run.path() + "/keys/observer.key",
                       {"", scheduler.public_key, own.secret_key}, "a key")
              .ok());
  const auto access = RunAccess(run.path(), "", "observer");
  REQUIRE(access.ok());
  REQUIRE(access->curve);
  CHECK(TextOf(access->curve->own.public_key) == TextOf(own.public_key));
  CHECK_FALSE(RunAccess(run.path(), "", "operator")->curve);
}

}  // namespace
}  // namespace dslide::run_access_test
