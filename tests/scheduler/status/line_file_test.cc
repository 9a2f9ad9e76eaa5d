#include "scheduler/status/line_file.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "common/data/whole_file.h"
#include "tests/support/temp_directory.h"

namespace dslide::line_file_test {
namespace {

TEST_CASE("line file: what is there stays, lines go behind it") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/lines";
  for (const char* line : {"one", "two"}) {
    LineFile file(path);
    CHECK(file.state().ok());
    file.Append(line);
  }
  CHECK(*ReadWholeFile(path) == "one\ntwo\n");
}

TEST_CASE("line file: one that cannot be opened is named") {
  const TempDirectory directory;
  LineFile file(directory.path() + "/nowhere/lines");
  file.Append("lost");
  REQUIRE_FALSE(file.state().ok());
  CHECK(file.state().error().message ==
        directory.path() + "/nowhere/lines: cannot write: No such file or directory");
}

TEST_CASE("line file: a disk that is full for a moment takes whole lines, and no more") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/lines";
  LineFile file(path);
  file.Append("before");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10, before.rlim_max};  // the first three bytes of a line
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  file.Append("meanwhile");
  file.Append("still");
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, handler);
  CHECK(*ReadWholeFile(path) == "before\n");
  file.Append("after");
  CHECK(*ReadWholeFile(path) == "before\nafter\n");
  CHECK(file.state().ok());
}

}  // namespace
}  // namespace dslide::line_file_test
