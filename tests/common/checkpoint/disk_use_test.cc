#include "common/checkpoint/disk_use.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "tests/support/temp_directory.h"

namespace dslide::disk_use_test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMany = 100'000;

struct Disk {
  std::string At(uint64_t batches) const {
    return directory.path() + "/" + CheckpointName(batches);
  }
  void Checkpoint(uint64_t batches) const {
    fs::create_directories(At(batches));
    std::ofstream(At(batches) + "/rows") << std::string(kMany, 'x');
    Manifest manifest;
    manifest.name = CheckpointName(batches);
    REQUIRE(WriteManifest(At(batches), manifest).ok());
  }
  CheckpointRoom Room(uint64_t quota, const std::string& held = "") const {
    return MakeRoom({directory.path()}, directory.path(), quota, kMany, {held});
  }
  TempDirectory directory;
};

TEST_CASE_FIXTURE(Disk, "disk use: a file of several names counts once") {
  Checkpoint(1);
  const uint64_t bytes = BytesUnder({directory.path()});
  CHECK(bytes > kMany);
  fs::create_hard_link(At(1) + "/rows", directory.path() + "/again");
  CHECK(BytesUnder({directory.path()}) == bytes);
  CHECK(BytesUnder({directory.path(), At(1)}) == bytes);
  CHECK(BytesUnder({directory.path() + "/nowhere"}) == 0);
}

TEST_CASE_FIXTURE(Disk, "disk use: older checkpoints make room, the newest stays") {
  CHECK(Room(2 * kMany).fits);
  CHECK_FALSE(Room(kMany / 2).fits);  // not even the first
  for (const uint64_t batches : {1, 2, 3}) Checkpoint(batches);
  CheckpointRoom room = Room(5 * kMany);
  CHECK(room.fits);
  CHECK(room.kept.size() == 3);
  room = Room(4 * kMany);  // three and the next one are a little more
  CHECK(room.fits);
  CHECK(room.kept == std::vector<std::string>{CheckpointName(2), CheckpointName(3)});
  CHECK(room.removed == 1);
  CHECK_FALSE(fs::exists(At(1)));
  room = Room(kMany);
  CHECK_FALSE(room.fits);
  CHECK(room.kept == std::vector<std::string>{CheckpointName(3)});
  CHECK(HasManifest(At(3)));
}

TEST_CASE_FIXTURE(Disk, "disk use: a checkpoint that is held stays") {
  for (const uint64_t batches : {1, 2, 3}) Checkpoint(batches);
  const CheckpointRoom room = Room(kMany, CheckpointName(1));
  CHECK_FALSE(room.fits);
  CHECK(room.kept == std::vector<std::string>{CheckpointName(1), CheckpointName(3)});
  CHECK(HasManifest(At(1)));
  CHECK_FALSE(fs::exists(At(2)));
  CHECK(HasManifest(At(3)));
}

}  // namespace
}  // namespace dslide::disk_use_test
