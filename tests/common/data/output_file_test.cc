#include "common/data/output_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/data/scratch_file.h"
#include "common/data/whole_file.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::output_file_test {
namespace {

namespace fs = std::filesystem;

struct Fixture {
  TempDirectory directory;
  std::string path = directory.path() + "/file";

  std::string Content() const {
    Result<std::string> bytes = ReadWholeFile(path);
    return bytes.ok() ? *bytes : bytes.error().message;
  }
  size_t Files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()));
  }
};

TEST_CASE_FIXTURE(Fixture, "output file: the old content until it is finished, then the new") {
  REQUIRE(WriteWholeFile(path, "old").ok());
  {
    OutputFile dropped = Ok(OutputFile::Create(path));
    dropped.Write("lost");
  }
  CHECK(Files() == 1);
  for (const bool synced : {false, true}) {
    OutputFile file = Ok(OutputFile::Create(path));
    file.Write("new");
    CHECK(Content() == "old");
    REQUIRE((synced ? file.FinishSynced() : file.Finish()).ok());
    CHECK(Content() == "new");
    CHECK(Files() == 1);
    REQUIRE(WriteWholeFile(path, "old").ok());
  }
}

TEST_CASE_FIXTURE(Fixture, "output file: several that write one file do not disturb one another") {
  for (const auto create : {&OutputFile::Create, &OutputFile::CreateSecret}) {
    Result<OutputFile> first = create(path), second = create(path);
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    {
      OutputFile dropped = Ok(create(path));
      dropped.Write("lost");
    }
    first->Write("of the first, ");
    second->Write("of the second");
    first->Write("which is longer");
    REQUIRE(first->FinishSynced().ok());
    CHECK(Content() == "of the first, which is longer");
    REQUIRE(second->Finish().ok());
    CHECK(Content() == "of the second");
    CHECK(Files() == 1);
  }
}

TEST_CASE_FIXTURE(Fixture, "output file: what a killed writer has left is used again") {
  REQUIRE(WriteWholeFile(path + ".tmp", "a part of a long content").ok());
  REQUIRE(WriteWholeFile(path, "new").ok());
  CHECK(Content() == "new");
  CHECK(Files() == 1);
}

// The name is a link in a directory of the test: a rename would replace the link, not the device.
TEST_CASE_FIXTURE(Fixture, "output file: a device is written to and stays what it is") {
  fs::create_symlink("/dev/full", path);
  CHECK(IsWrittenInPlace(path));
  const std::string why = path + ": cannot write: No space left on device";
  CHECK(MessageOf(WriteWholeFile(path, std::string(100'000, 'x')), ErrorKind::kFailed) == why);
  OutputFile file = Ok(OutputFile::Create(path));
  file.Write("a few bytes");
  CHECK(MessageOf(file.FinishSynced(), ErrorKind::kFailed) == why);
  CHECK(fs::is_symlink(path));
  CHECK(Files() == 1);

  CHECK(MessageOf(CheckRegularOutput(path, "a model")) ==
        path + ": is no regular file (a model cannot be written to it)");
  CHECK(CheckRegularOutput(directory.path() + "/new", "a model").ok());
}

TEST_CASE("output file: standard output is written in place, also where it is a file") {
  for (const char* name : {"-", "/dev/stdout", "/dev/fd/1"}) {
    CHECK(IsWrittenInPlace(name));
    CHECK_FALSE(CheckRegularOutput(name, "a model").ok());
  }
  CHECK_FALSE(IsStandardOutput("./-"));
}

TEST_CASE_FIXTURE(Fixture, "output file: what cannot be created is named") {
  const std::string nowhere = directory.path() + "/none/file";
  CHECK(MessageOf(OutputFile::Create(nowhere)) ==
        nowhere + ": cannot create: No such file or directory");
  (void)MessageOf(WriteWholeFile(nowhere, "x"), ErrorKind::kFailed);
}

// The scheduler of a service is another user than the administrator who changes its keys.
TEST_CASE_FIXTURE(Fixture, "output file: a secret belongs to whom the file or directory belonged") {
  const uid_t owner = geteuid() == 0 ? 4242 : geteuid();  // others cannot give files away
  const auto owner_of = [](const std::string& file) {
    struct stat status = {};
    REQUIRE(stat(file.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    return status.st_uid;
  };
  REQUIRE(WriteSecretFile(path, "old").ok());
  REQUIRE(chown(path.c_str(), owner, getegid()) == 0);
  REQUIRE(WriteSecretFile(path, "new").ok());
  CHECK(owner_of(path) == owner);
  const std::string keys = directory.path() + "/keys";
  REQUIRE(mkdir(keys.c_str(), 0700) == 0);
  REQUIRE(chown(keys.c_str(), owner, getegid()) == 0);
  REQUIRE(WriteSecretFile(keys + "/one", "new").ok());
  CHECK(owner_of(keys + "/one") == owner);
}

TEST_CASE_FIXTURE(Fixture, "scratch file: what was written, with a part replaced, and no name") {
  ScratchFile scratch = Ok(ScratchFile::Beside(path));
  scratch.Write("head tail");
  scratch.Overwrite(0, "HEAD");
  scratch.Write(" end");
  CHECK(Files() == 0);
  std::string read;
  REQUIRE(scratch.ReadAll([&](std::string_view bytes) { read += bytes; }).ok());
  CHECK(read == "HEAD tail end");
  CHECK(scratch.size() == read.size());
}

}  // namespace
}  // namespace dslide::output_file_test
