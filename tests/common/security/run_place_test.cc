#include "common/security/run_place.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::run_place_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAddress = "tcp://10.0.0.2:7700";

struct Run {
  TempDirectory directory;
  const std::string path = directory.path() + "/my run";
  const std::string file = path + "/" + kAddressName;

  Run() { fs::create_directory(path); }
  void Listen() const { std::ofstream(file) << kAddress << "\n"; }
  // The error of a place: its kind and whether it says so.
  void CheckError(const std::string& place, ErrorKind kind, const std::string& says) const {
    CAPTURE(place);
    const auto access = AccessTo(place, "", "worker");
    REQUIRE_FALSE(access.ok());
    CHECK(access.error().kind == kind);
    CAPTURE(access.error().message);
    CHECK(access.error().message.find(says) != std::string::npos);
  }
};

TEST_CASE_FIXTURE(Run, "run place: an address, a run directory, or the file in it, in any form") {
  Listen();
  for (const std::string& place :
       {std::string(kAddress), path, path + "/", file, "file://" + file, "file://" + path}) {
    CAPTURE(place);
    const auto access = Ok(AccessTo(place, "", "worker"));
    CHECK(access.address == kAddress);
    CHECK_FALSE(access.curve);
  }
  const std::string before = fs::current_path().string();
  fs::current_path(directory.path());
  CHECK(AccessTo("my run", "", "worker")->address == kAddress);
  fs::current_path(path);
  CHECK(AccessTo(".", "", "worker")->address == kAddress);
  CHECK(AccessTo(kAddressName, "", "worker")->address == kAddress);
  fs::current_path(before);
}

TEST_CASE_FIXTURE(Run, "run place: of a run with keys that of the role, unless another is given") {
  Listen();
  fs::create_directories(path + "/keys");
  const KeyPair scheduler = DrawKeyPair(), worker = DrawKeyPair(), own = DrawKeyPair();
  const auto write = [&](const std::string& name, const KeyPair& key) {
    const MemberKey member = {"", scheduler.public_key, key.secret_key};
    REQUIRE(WriteKeyFile(name, member, "a key").ok());
  };
  write(path + "/keys/worker.key", worker);
  write(directory.path() + "/own.key", own);
  for (const std::string& place : {path, file, "file://" + file, "file://" + path}) {
    CAPTURE(place);
    const auto by_role = Ok(AccessTo(place, "", "worker"));
    REQUIRE(by_role.curve);
    CHECK(by_role.curve->own.public_key == worker.public_key);
    CHECK(AccessTo(place, directory.path() + "/own.key", "worker")->curve->own.public_key ==
          own.public_key);
    CHECK_FALSE(AccessTo(place, "", "server")->curve);
  }
}

TEST_CASE_FIXTURE(
    Run, "run place: a wrong place is named, and a run that has begun is tried again later") {
  CheckError(path, ErrorKind::kBadInput, path + ": has no scheduler.address");
  CheckError(path + "/absent", ErrorKind::kBadInput, "not a run directory or an address");
  CheckError("file://my/run", ErrorKind::kBadInput, "a file's address is file:///PATH");
  CheckError("file://" + file, ErrorKind::kTryLater, file);
  // `dslide train` has begun, and reads its data.
  fs::create_directory(path + "/logs");
  CheckError(path, ErrorKind::kTryLater, path + ": has no scheduler.address");
}

}  // namespace
}  // namespace dslide::run_place_test
