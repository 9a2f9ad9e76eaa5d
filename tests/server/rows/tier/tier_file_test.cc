#include "server/rows/tier/tier_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/failpoint.h"

namespace dslide::tier_file_test {
namespace {

constexpr size_t kBlock = 1024;

std::unique_ptr<TierFile> Open(bool ring, TierFile::Failure failure = {}) {
  Result<std::unique_ptr<TierFile>> file = TierFile::Create({"/tmp", ring, std::move(failure)});
  REQUIRE(file.ok());
  return *std::move(file);
}

TEST_CASE("a tier file: as many transfers as there are indices, in any order") {
  for (const bool ring : {true, false}) {
    const std::unique_ptr<TierFile> file = Open(ring);
    constexpr uint32_t kBlocks = 5000;
    file->Grow(kBlocks * kBlock);
    CHECK(file->bytes() == kBlocks * kBlock);
    const TierFile::Aligned buffers = TierFile::Allocate(TierFile::kTransfers * kBlock);
    const auto buffer = [&](uint32_t index) { return buffers.get() + index * kBlock; };
    std::vector<uint32_t> free;
    for (uint32_t index = 0; index < TierFile::kTransfers; ++index) free.push_back(index);
    std::vector<uint32_t> block_of(TierFile::kTransfers);
    uint32_t ended = 0, differ = 0;
    const auto value_of = [](uint32_t block) { return static_cast<uint8_t>(block * 37 % 251); };
    for (const bool write : {true, false}) {
      const auto await = [&] {
        for (const uint32_t index : file->Await(true)) {
          differ += !write && buffer(index)[599] != value_of(block_of[index]);
          free.push_back(index);
          ++ended;
        }
      };
      for (uint32_t n = 0; n < kBlocks; ++n) {
        while (free.empty()) await();
        const uint32_t index = free.back(), block = n * 7 % kBlocks;
        free.pop_back();
        block_of[index] = block;
        std::memset(buffer(index), write ? value_of(block) : 255, kBlock);
        file->Add({index, write, buffer(index), kBlock, uint64_t{block} * kBlock});
      }
      while (file->in_flight() > 0) await();
    }
    CHECK(ended == 2 * kBlocks);
    CHECK(differ == 0);
  }
}

TEST_CASE("a tier file has no name, and is refused where there can be none") {
  const std::string directory = "/tmp/dslide-tier-file-test-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  {
    Result<std::unique_ptr<TierFile>> file = TierFile::Create({directory, true, {}});
    REQUIRE(file.ok());
    CHECK(std::filesystem::is_empty(directory));
    CHECK(FreeForTier(directory).ok());
  }
  std::filesystem::remove(directory);
  const auto file = TierFile::Create({directory, true, {}});
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
  CHECK(ending([] { Open(false)->Grow(100 * kBlock); }) == 0);
  CHECK(ending([] {
          signal(SIGXFSZ, SIG_IGN);
          const rlimit limit = {50'000, 50'000};
          setrlimit(RLIMIT_FSIZE, &limit);
          Open(false)->Grow(100 * kBlock);
        }) == 1);

  std::string line;
  const auto keep = [&](const std::string& failure) {
    line = failure;
    throw std::runtime_error(failure);
  };
  const std::unique_ptr<TierFile> file = Open(true, keep);
  file->Grow(10 * kBlock);
  const TierFile::Aligned some = TierFile::Allocate(kBlock);
  const auto transfer = [&](bool write) {
    file->Add({1, write, some.get(), kBlock, kBlock});
    (void)file->Await(true);
  };
  REQUIRE(ArmFailpoints("server.tier-write=fail@1;server.tier-read=fail@1").ok());
  CHECK_THROWS(transfer(true));
  CHECK(
      line ==
      "the disk tier's file in /tmp (cluster.disk_tier): rows cannot be written: No space left on "
      "device; make room there or name another directory, and start the server again: it goes on "
      "from the last checkpoint");
  CHECK_THROWS(transfer(false));
  CHECK(
      line ==
      "the disk tier's file in /tmp (cluster.disk_tier): rows cannot be read: Input/output error; "
      "name a directory on another disk, and start the server again: it goes on from the last "
      "checkpoint");
  transfer(true);
}

}  // namespace
}  // namespace dslide::tier_file_test
