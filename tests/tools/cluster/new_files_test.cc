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
    const NewFiles files({{in.path() + "/runs/a" + ending, IsNameOfRun}});
    Make(in.path() + "/runs/a/logs/scheduler.log");
    files.Remove();
    CHECK(fs::is_empty(in.path()));
  }
  const NewFiles files({{in.path() + "/runs/a", IsNameOfRun}});
  Make(in.path() + "/runs/a/config.ini");
  Make(in.path() + "/runs/b/config.ini");
  files.Remove();
  CHECK_FALSE(fs::exists(in.path() + "/runs/a"));
  CHECK(fs::exists(in.path() + "/runs/b/config.ini"));
}

TEST_CASE("new files: what was there stays") {
  const TempDirectory in;
  Make(in.path() + "/mine/notes.txt");
  const NewFiles files(
      {{in.path() + "/mine", IsNameOfRun}, {in.path() + "/mine/checkpoint", IsNameOfCheckpoints}});
  Make(in.path() + "/mine/logs/a");
  Make(in.path() + "/mine/checkpoint/step");
  files.Remove();
  CHECK(fs::exists(in.path() + "/mine/notes.txt"));
  CHECK_FALSE(fs::exists(in.path() + "/mine/logs"));
  CHECK_FALSE(fs::exists(in.path() + "/mine/checkpoint"));
}

TEST_CASE("new files: what others put there meanwhile stays") {
  const TempDirectory in;
  Make(in.path() + "/mine/notes.txt");
  const NewFiles files(
      {{in.path() + "/mine", IsNameOfRun}, {in.path() + "/new/models", IsNameOfCheckpoints}});
  for (const char* name : {"/mine/config.ini", "/mine/letter.txt", "/mine/ledger-of-costs/a",
                           "/new/models/step-000000000001/manifest", "/new/models/notes",
                           "/new/models/preprocessor-00000000000000ff"}) {
    Make(in.path() + name);
  }
  files.Remove();
  for (const char* name :
       {"/mine/notes.txt", "/mine/letter.txt", "/mine/ledger-of-costs/a", "/new/models/notes"}) {
    CHECK_MESSAGE(fs::exists(in.path() + name), name);
  }
  for (const char* name : {"/mine/config.ini", "/new/models/step-000000000001",
                           "/new/models/preprocessor-00000000000000ff"}) {
    CHECK_MESSAGE(!fs::exists(in.path() + name), name);
  }
}

TEST_CASE("new files: nothing to remove does no harm") {
  const TempDirectory in;
  NewFiles({{in.path() + "/none", IsNameOfRun}}).Remove();
  NewFiles({}).Remove();
  CHECK(fs::exists(in.path()));
}

}  // namespace
}  // namespace dslide::new_files_test
