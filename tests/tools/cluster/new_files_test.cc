#include "tools/dslide/cluster/new_files.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_directory.h"

namespace dslide::new_files_test {
namespace {

namespace fs = std::filesystem;

void Make(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << "x";
}

TEST_CASE("new files: a directory that was made goes, with those above it that are empty") {
  const TempDirectory in;
  for (const char* ending : {"", "/"}) {
    const NewFiles files({in.path() + "/runs/a" + ending});
    Make(in.path() + "/runs/a/logs/scheduler.log");
    files.Remove();
    CHECK(fs::is_empty(in.path()));
  }
  const NewFiles files({in.path() + "/runs/a"});
  Make(in.path() + "/runs/a/config.ini");
  Make(in.path() + "/runs/b/config.ini");
  files.Remove();
  CHECK_FALSE(fs::exists(in.path() + "/runs/a"));
  CHECK(fs::exists(in.path() + "/runs/b/config.ini"));
}

TEST_CASE("new files: what was there stays") {
  const TempDirectory in;
  Make(in.path() + "/mine/notes.txt");
  const NewFiles files({in.path() + "/mine", in.path() + "/mine/checkpoint"});
  Make(in.path() + "/mine/logs/a");
  Make(in.path() + "/mine/checkpoint/step");
  files.Remove();
  CHECK(fs::exists(in.path() + "/mine/notes.txt"));
  CHECK_FALSE(fs::exists(in.path() + "/mine/logs"));
  CHECK_FALSE(fs::exists(in.path() + "/mine/checkpoint"));
}

TEST_CASE("new files: nothing to remove does no harm") {
  const TempDirectory in;
  NewFiles({in.path() + "/none"}).Remove();
  NewFiles({}).Remove();
  CHECK(fs::exists(in.path()));
}

}  // namespace
}  // namespace dslide::new_files_test
