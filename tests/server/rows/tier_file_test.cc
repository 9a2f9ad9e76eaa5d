#include "server/rows/tier_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/failpoint.h"

namespace dslide::tier_file_test {
namespace {

std::unique_ptr<TierFile> Open(bool ring, TierFile::Failure failure = {}) {
  Result<std::unique_ptr<TierFile>> file =
      TierFile::Create({"/tmp", ring, std::move(failure)}, 600);
  REQUIRE(file.ok());
  return *std::move(file);
}

TEST_CASE("a tier file: as many transfers as there are buffers, in any order") {
  for (const bool ring : {true, false}) {
    const std::unique_ptr<TierFile> file = Open(ring);
    CHECK(file->record_bytes() == 1024);
    file->Grow(5000);
    CHECK(file->bytes() == 5000 * 1024);
    uint32_t ended = 0;
    const auto await = [&](bool wait) {
      for (const uint32_t buffer : file->Await(wait)) {
        file->GiveBack(buffer);
        ++ended;
      }
    };
    for (uint32_t n = 0; n < 5000; ++n) {
      uint32_t buffer = 0;
      while ((buffer = file->TakeBuffer()) == TierFile::kNone) await(true);
      std::memset(file->Buffer(buffer), static_cast<int>(n % 200), 600);
      file->Write(buffer, n * 7 % 5000);
    }
    while (file->in_flight() > 0) await(true);
    CHECK(ended == 5000);
    const TierFile::Aligned some = TierFile::Allocate(10 * 1024);
    file->ReadNow(70, 10, some.get());
    for (uint32_t r = 0; r < 10; ++r) CHECK(some[r * 1024 + 599] == (70 + r) * 2143 % 5000 % 200);
    std::vector<uint32_t> record_of(file->buffers());
    for (uint32_t n = 0; n < file->buffers(); ++n) {
      const uint32_t buffer = file->TakeBuffer();
      record_of[buffer] = n;
      file->Read(buffer, n);
    }
    CHECK(file->TakeBuffer() == TierFile::kNone);
    bool same = true;
    while (file->in_flight() > 0) {
      for (const uint32_t buffer : file->Await(true)) {
        same = same && file->Buffer(buffer)[0] == uint64_t{record_of[buffer]} * 2143 % 5000 % 200;
      }
    }
    CHECK(same);
  }
}

TEST_CASE("a tier file has no name, and is refused where there can be none") {
  const std::string directory = "/tmp/dslide-tier-file-test-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  {
    Result<std::unique_ptr<TierFile>> file = TierFile::Create({directory, true, {}}, 100);
    REQUIRE(file.ok());
    CHECK(std::filesystem::is_empty(directory));
    CHECK(FreeForTier(directory).ok());
  }
  std::filesystem::remove(directory);
  const auto file = TierFile::Create({directory, true, {}}, 100);
  REQUIRE_FALSE(file.ok());
  CHECK(file.error().message ==
        "cluster.disk_tier = " + directory +
            ": no file can be made there: No such file or directory; name a directory on a local "
            "disk");
  CHECK_FALSE(FreeForTier(directory).ok());
}

TEST_CASE("a tier file: what fails is named with its mend, and ends the process") {
  const auto ending = [](const std::function<void()>& work) {
    const pid_t child = fork();
    if (child == 0) {
      (void)freopen("/dev/null", "w", stderr);
      work();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(ending([] { Open(false)->Grow(100); }) == 0);
  CHECK(ending([] {
          signal(SIGXFSZ, SIG_IGN);
          const rlimit limit = {50'000, 50'000};
          setrlimit(RLIMIT_FSIZE, &limit);
          Open(false)->Grow(100);
        }) == 1);

  std::string line;
  const auto keep = [&](const std::string& failure) {
    line = failure;
    throw std::runtime_error(failure);
  };
  const std::unique_ptr<TierFile> file = Open(true, keep);
  file->Grow(10);
  const TierFile::Aligned some = TierFile::Allocate(1024);
  REQUIRE(ArmFailpoints("server.tier-write=fail@1;server.tier-read=fail@1").ok());
  CHECK_THROWS(file->WriteNow(1, 1, some.get()));
  CHECK(
      line ==
      "the disk tier's file in /tmp (cluster.disk_tier): rows cannot be written: No space left on "
      "device; make room there or name another directory, and start the server again: it goes on "
      "from the last checkpoint");
  CHECK_THROWS(file->ReadNow(1, 1, some.get()));
  CHECK(
      line ==
      "the disk tier's file in /tmp (cluster.disk_tier): rows cannot be read: Input/output error; "
      "name a directory on another disk, and start the server again: it goes on from the last "
      "checkpoint");
  file->WriteNow(1, 1, some.get());
}

}  // namespace
}  // namespace dslide::tier_file_test
