#include "common/checkpoint/manifest.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/checkpoint/layout.h"
#include "common/data/whole_file.h"
#include "tests/support/change_byte.h"
#include "tests/support/hex.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::manifest_test {
namespace {

using testing::Hex;

namespace fs = std::filesystem;

Manifest SmallManifest() {
  Manifest manifest;
  manifest.run = {0x1122334455667788};
  manifest.name = "step-000000000003";
  manifest.config = "[model]\nhidden = 8\n";
  manifest.epoch = 1;
  manifest.batches = 3;
  manifest.samples = 48;
  manifest.train_samples = 1000;
  manifest.ledger_position = 77;
  manifest.done = {{0, 1}, {2, 0}};
  manifest.shards = {
      {"shard-0", "server", 10, 200, {{"000009.sst", 150, 0xabcdef}}},
      {"shard-1", "server-2", 11, 201, {{"CURRENT", 16, 7}, {"000010.sst", 185, 8}}}};
  manifest.slot_shard = {0, 1, 1, 0};
  manifest.written_s = 1'763'985'600;
  return manifest;
}

bool Same(const Manifest& a, const Manifest& b) {
  const auto same_done = [](const DoneBatch& x, const DoneBatch& y) {
    return x.unit == y.unit && x.index == y.index;
  };
  const auto same_shard = [](const ManifestShard& x, const ManifestShard& y) {
    return x.directory == y.directory && x.server == y.server && x.rows == y.rows &&
           x.bytes == y.bytes && x.files == y.files;
  };
  return a.run == b.run && a.name == b.name && a.config == b.config && a.epoch == b.epoch &&
         a.batches == b.batches && a.samples == b.samples && a.train_samples == b.train_samples &&
         a.train_checksum == b.train_checksum && a.ledger_position == b.ledger_position &&
         a.slot_shard == b.slot_shard && a.written_s == b.written_s &&
         std::equal(a.done.begin(), a.done.end(), b.done.begin(), b.done.end(), same_done) &&
         std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end(), same_shard);
}

std::string Contents(const std::string& path) { return *ReadWholeFile(path); }

void Put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Makes a checkpoint directory, complete or not.
void Make(const std::string& in, uint64_t batches, bool complete) {
  const std::string path = in + "/" + CheckpointName(batches);
  fs::create_directories(path + "/shard-0");
  if (complete) REQUIRE(WriteManifest(path, SmallManifest()).ok());
}

TEST_CASE("a manifest comes back as it was written, and replaces an older one") {
  const TempDirectory directory;
  REQUIRE(WriteManifest(directory.path(), Manifest()).ok());
  REQUIRE(WriteManifest(directory.path(), SmallManifest()).ok());
  const auto read = Ok(ReadManifest(directory.path()));
  CHECK(Same(read, SmallManifest()));
  CHECK_FALSE(fs::exists(directory.path() + "/manifest.tmp"));
}

TEST_CASE("the bytes of a manifest are fixed") {
  const TempDirectory directory;
  Manifest manifest;
  manifest.run = {7};
  manifest.name = "n";
  manifest.batches = 2;
  manifest.done = {{1, 2}};
  REQUIRE(WriteManifest(directory.path(), manifest).ok());
  CHECK(Hex(Contents(directory.path() + "/manifest")) ==
        "3400000044534c4d00000000000026002c0008001c000c001000000024000000"
        "0000140018000000000000000000000000000700260000000000000103000000"
        "380000002c0000001c0000001400000007000000000000000200000000000000"
        "000000000100000001000000020000000000000000000000010000006e000000"
        "ae2928edc564884644534c4d73756d0a");
  manifest.shards = {{"s", "a", 1, 2, {}}};
  manifest.slot_shard = {0, 0, 0};
  REQUIRE(WriteManifest(directory.path(), manifest).ok());
  CHECK(Hex(Contents(directory.path() + "/manifest")) ==
        "3000000044534c4d000026003000080020000c00100000002800000000001400"
        "180000001c00000000000000000007002600000000000001030000004c000000"
        "4000000030000000240000001400000007000000000000000200000000000000"
        "0300000000000000000000000100000030000000010000000100000002000000"
        "0000000000000000010000006e00000010002400040008001000180000000c00"
        "100000002c000000200000001800000001000000000000000200000000000000"
        "000000000000000001000000610000000100000073000000d37edb0c06b66c0c"
        "44534c4d73756d0a");
}

TEST_CASE("a manifest whose slots are in no shard is refused") {
  const TempDirectory directory;
  Manifest manifest = SmallManifest();
  manifest.slot_shard = {0, 2};
  REQUIRE(WriteManifest(directory.path(), manifest).ok());
  CHECK(MessageOf(ReadManifest(directory.path())).find("a slot is in a shard that there is not") !=
        std::string::npos);
}

TEST_CASE("a manifest in which any byte has changed, is missing or was added is refused") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/manifest";
  REQUIRE(WriteManifest(directory.path(), SmallManifest()).ok());
  const std::string good = Contents(path);
  const auto is_refused = [&] {
    CHECK(MessageOf(ReadManifest(directory.path())).starts_with(path + ": damaged ("));
  };
  for (size_t at = 0; at < good.size(); ++at) {
    CAPTURE(at);
    for (const int mask : {0x01, 0x02, 0x80, 0xff}) {
      testing::ChangeByte(path, at, mask);
      is_refused();
      testing::ChangeByte(path, at, mask);  // as it was
    }
  }
  for (const std::string& more : {std::string(1, '\0'), good.substr(good.size() - 16)}) {
    Put(path, good + more);
    is_refused();
  }
  Put(path, good);
  CHECK(ReadManifest(directory.path()).ok());
  for (size_t size = good.size(); size-- > 0;) {
    fs::resize_file(path, size);
    is_refused();
  }
}

// The bytes of "the bytes of a manifest are fixed" before there were checksums.
TEST_CASE("a manifest of an earlier version, without a checksum, is read; damage does not crash") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/manifest";
  const std::vector<uint8_t> bytes = testing::FromHex(
      "2400000044534c4d1c002c0004001c0008000c00000024000000000010001400"
      "000018001c000000030000004c00000040000000300000002400000014000000"
      "0700000000000000020000000000000003000000000000000000000001000000"
      "300000000100000001000000020000000000000000000000010000006e000000"
      "10002400040008001000180000000c00100000002c0000002000000018000000"
      "0100000000000000020000000000000000000000000000000100000061000000"
      "0100000073000000");
  const std::string old(bytes.begin(), bytes.end());
  Put(path, old);
  const auto read = Ok(ReadManifest(directory.path()));
  CHECK(read.run.value == 7);
  CHECK(read.name == "n");
  CHECK(read.batches == 2);
  CHECK(read.slot_shard == std::vector<uint16_t>{0, 0, 0});
  REQUIRE(read.shards.size() == 1);
  CHECK(read.shards[0].server == "a");
  int errors = 0;
  for (size_t at = 0; at < old.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      testing::ChangeByte(path, at, mask);
      errors += !ReadManifest(directory.path()).ok();
      testing::ChangeByte(path, at, mask);  // as it was
    }
  }
  CHECK(errors > 50);
}

TEST_CASE("a missing manifest and a place that cannot be written are named") {
  const TempDirectory directory;
  CHECK(
      MessageOf(ReadManifest(directory.path())).find(directory.path() + "/manifest: cannot open") ==
      0);
  CHECK(MessageOf(WriteManifest(directory.path() + "/nowhere", SmallManifest()), ErrorKind::kFailed)
            .find(directory.path() + "/nowhere/manifest") == 0);
}

TEST_CASE("the newest complete checkpoint is found in a run or in its checkpoint folder") {
  const TempDirectory directory;
  const std::string& in = directory.path();
  CHECK_FALSE(FindCheckpoint(in + "/nowhere").ok());
  CHECK_FALSE(FindCheckpoint(in).ok());
  const std::string folder = in + "/checkpoint";
  Make(folder, 8, false);
  CHECK(MessageOf(FindCheckpoint(in)) ==
        in + ": the run has no complete checkpoint; while it runs, dslide run checkpoint " + in +
            " makes one");
  Make(folder, 9, true);
  Make(folder, 100, true);
  Make(folder, 2000, false);
  CHECK(*FindCheckpoint(folder) == folder + "/step-000000000100");
  CHECK(*FindCheckpoint(in) == folder + "/step-000000000100");
  CHECK(*FindCheckpoint(folder + "/step-000000000009") == folder + "/step-000000000009");
  CHECK_FALSE(FindCheckpoint(folder + "/step-000000002000").ok());
}

TEST_CASE("pruning keeps the newest complete ones and what may still be written") {
  const TempDirectory directory;
  const std::string& in = directory.path();
  for (const uint64_t batches : {1, 3, 5, 7}) Make(in, batches, true);
  for (const uint64_t batches : {2, 6, 8}) Make(in, batches, false);
  fs::create_directories(in + "/other");
  Make(in, 0, false);
  CHECK(PruneCheckpoints(in, 10) == 0);
  CHECK(fs::exists(in + "/" + CheckpointName(1)));
  CHECK_FALSE(fs::exists(in + "/" + CheckpointName(0)));
  CHECK(PruneCheckpoints(in, 2) == 2);
  for (const uint64_t batches : {1, 2, 3})
    CHECK_FALSE(fs::exists(in + "/" + CheckpointName(batches)));
  for (const uint64_t batches : {5, 6, 7, 8}) CHECK(fs::exists(in + "/" + CheckpointName(batches)));
  CHECK(fs::exists(in + "/other"));
  CHECK(PruneCheckpoints(in + "/nowhere", 2) == 0);
  CHECK(PruneCheckpoints(in, 1, {CheckpointName(5)}) == 0);  // a hook reads it
  CHECK(fs::exists(in + "/" + CheckpointName(5)));
}

TEST_CASE("a manifest that names files outside of its checkpoint is refused") {
  const TempDirectory directory;
  const auto refused = [&](auto change) {
    Manifest manifest = SmallManifest();
    change(&manifest);
    REQUIRE(WriteManifest(directory.path(), manifest).ok());
    CHECK(MessageOf(ReadManifest(directory.path()))
              .starts_with(directory.path() + "/manifest: damaged or forged: "));
  };
  for (const char* name : {"../../../tmp/evil", "/tmp/evil", "..", ".", "", "a/../b", "a\nb"}) {
    CAPTURE(name);
    refused([&](Manifest* manifest) { manifest->shards[1].directory = name; });
    refused([&](Manifest* manifest) { manifest->shards[1].files[0].name = name; });
    if (*name != '\0') refused([&](Manifest* manifest) { manifest->name = name; });
  }
  refused([](Manifest* manifest) { manifest->shards[0].files[0].bytes = UINT64_MAX; });
}

}  // namespace
}  // namespace dslide::manifest_test
