// A checkpoint from what servers saved when the scheduler was gone.
#include "scheduler/ledger/orphans.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/checkpoint/file_checksum.h"
#include "common/run/slot_plan.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::orphans_test {
namespace {

namespace fs = std::filesystem;

// Epoch 1 of 50 samples in 13 batches of 4; batches 0, 1 and 4 of it count. A unit has 3 batches,
// in synchronous training 1, for a step has no more.
LedgerState State(int32_t staleness) {
  Config config;
  config.train.batch = 4;
  config.train.unit_batches = 3;
  config.train.staleness = staleness;
  config.cluster.slots = 8;
  ResolveConfig(20, 10, &config);
  const uint32_t unit = config.train.unit_batches;
  LedgerState state;
  state.Apply(LedgerOpened{{7}, FormatConfig(config), 50, 1});
  state.Apply(LedgerRestored{});
  state.Apply(LedgerPlanned{EqualPlan(3, 8, {{"a", "tcp://a", {1}}, {"b", "tcp://b", {2}}})});
  for (uint32_t n = 0; n < 13; ++n)
    state.Apply(LedgerCounted{{0, n / unit, n % unit}, n < 12 ? 4u : 2u, "w"});
  state.Apply(LedgerEpochDone{1});
  for (const uint32_t n : {0u, 1u, 4u}) state.Apply(LedgerCounted{{1, n / unit, n % unit}, 4, "w"});
  return state;
}

void Write(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << path;
}

TEST_CASE("orphans: a server without slots has none, and none is missed") {
  const TempDirectory directory;
  LedgerState state = State(-1);
  Plan plan = state.plan;
  plan.servers.push_back({"c", "tcp://c", {3}});
  state.Apply(LedgerPlanned{plan});
  Write(directory.path() + "/orphan-3-0/shard-3-0/1.sst");
  Write(directory.path() + "/orphan-3-0/shard-3-1/1.sst");
  REQUIRE(AdoptOrphans(state, directory.path(), 0).ok());
  const auto manifest = Ok(ReadManifest(directory.path() + "/step-000000000016"));
  CHECK(manifest.shards.size() == 2);
}

TEST_CASE("orphans: all shards of the plan become a checkpoint of what the ledger says counts") {
  const TempDirectory directory;
  const std::string orphan = directory.path() + "/orphan-3-0";
  Write(orphan + "/shard-3-0/1.sst");
  Write(orphan + "/shard-3-1/1.sst");
  Write(orphan + "/shard-3-1/CURRENT");
  const uint64_t checksum = *FileChecksum(orphan + "/shard-3-1/1.sst");
  Write(directory.path() + "/orphan-2-0/shard-2-0/1.sst");  // of an earlier plan
  REQUIRE(AdoptOrphans(State(-1), directory.path(), 0).ok());
  CHECK_FALSE(fs::exists(orphan));
  CHECK_FALSE(fs::exists(directory.path() + "/orphan-2-0"));
  const auto manifest = Ok(ReadManifest(directory.path() + "/step-000000000016"));
  CHECK(manifest.name == "step-000000000016");
  CHECK(manifest.run == RunId{7});
  CHECK(manifest.epoch == 1);
  CHECK(manifest.batches == 16);
  CHECK(manifest.samples == 62);
  CHECK(manifest.done == std::vector<DoneBatch>{{0, 0}, {0, 1}, {1, 1}});
  REQUIRE(manifest.shards.size() == 2);
  CHECK(manifest.shards[1].directory == "shard-3-1");
  CHECK(manifest.shards[1].server == "b");
  REQUIRE(manifest.shards[1].files.size() == 2);
  CHECK(manifest.shards[1].files[0].checksum == checksum);
  // 21 input rows and 10 neurons over 8 slots, of which each server has four.
  CHECK(manifest.shards[0].rows == 12 + 6);
  CHECK(manifest.shards[1].rows == 9 + 4);
}

TEST_CASE(
    "orphans: a missing shard, another plan's, or a checkpoint that is there: nothing happens") {
  const TempDirectory directory;
  Write(directory.path() + "/orphan-3-0/shard-3-0/1.sst");
  Write(directory.path() + "/orphan-4-0/shard-4-0/1.sst");
  Write(directory.path() + "/orphan-x/1");
  REQUIRE(AdoptOrphans(State(-1), directory.path(), 0).ok());
  REQUIRE(AdoptOrphans(State(-1), directory.path() + "/nowhere", 0).ok());
  CHECK(CompleteCheckpoints(directory.path()).empty());
  CHECK(fs::exists(directory.path() + "/orphan-3-0/shard-3-0/1.sst"));
  CHECK(fs::exists(directory.path() + "/orphan-4-0"));
}

TEST_CASE("orphans: in synchronous training only the steps that were committed count") {
  const TempDirectory directory;
  for (const char* shard : {"/shard-3-0/1.sst", "/shard-3-1/1.sst"}) {
    Write(directory.path() + "/orphan-3-15" + shard);  // 13 steps of epoch 0, two of epoch 1
    Write(directory.path() + "/orphan-3-12" + shard);  // not of this epoch
  }
  REQUIRE(AdoptOrphans(State(0), directory.path(), 0).ok());
  CHECK(CompleteCheckpoints(directory.path()).size() == 1);
  const auto manifest = Ok(ReadManifest(directory.path() + "/step-000000000015"));
  CHECK(manifest.batches == 15);
  CHECK(manifest.samples == 58);
  CHECK(manifest.done == std::vector<DoneBatch>{{0, 0}, {1, 0}});
}

// A stream's segments of at most 50 samples: the first has these, the second 18 in 5 batches of 4.
LedgerState StreamState() {
  Config config;
  config.train.open_vocabulary = true;
  config.train.segment_samples = 50;
  config.train.batch = 4;
  config.train.staleness = 0;
  config.cluster.slots = 8;
  ResolveConfig(kOpenFeatures, kOpenLabels, &config);
  LedgerState state;
  state.Apply(LedgerOpened{{7}, FormatConfig(WithNominalSizes(config)), 50, 0});
  state.Apply(LedgerRestored{});
  Plan plan = EqualPlan(3, 8, {{"a", "tcp://a", {1}}});
  plan.shape = {2, 20, 10, 18, {}, {}, {}};
  state.Apply(LedgerPlanned{plan});
  for (uint32_t n = 0; n < 13; ++n) state.Apply(LedgerCounted{{0, n, 0}, n < 12 ? 4u : 2u, "w"});
  state.Apply(LedgerEpochDone{1});
  for (uint32_t n = 0; n < 5; ++n) state.Apply(LedgerCounted{{1, n, 0}, n < 4 ? 4u : 2u, "w"});
  state.Apply(LedgerEpochDone{2});
  return state;
}

TEST_CASE("orphans: between two segments of a stream servers stand at the end of a short one") {
  const TempDirectory directory;
  const LedgerState state = StreamState();
  for (const char* steps : {"17", "19", "13"}) {
    Write(directory.path() + "/orphan-3-" + steps + "/shard-3-0/1.sst");
  }
  REQUIRE(AdoptOrphans(state, directory.path(), 5).ok());
  CHECK(CompleteCheckpoints(directory.path()).empty());  // not all steps of the segment, or others
  Write(directory.path() + "/orphan-3-18/shard-3-0/1.sst");
  REQUIRE(AdoptOrphans(state, directory.path(), 5).ok());
  const auto manifest = Ok(ReadManifest(directory.path() + "/step-000000000018"));
  CHECK(manifest.shape_epoch == 2);
  CHECK(manifest.epoch == 2);
  CHECK(manifest.batches == 18);
  CHECK(manifest.samples == 68);
  CHECK(manifest.done.empty());
  CHECK(manifest.preprocessor == 5);
}

}  // namespace
}  // namespace dslide::orphans_test
