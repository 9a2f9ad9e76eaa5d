#include "scheduler/balance/table_health.h"

#include <doctest/doctest.h>

#include "tests/server/model/lsh/table_layer.h"

namespace dslide::table_health_test {
namespace {

constexpr uint32_t kHidden = 64, kNeurons = 6000;

// An executor's heartbeat over neurons that are a common vector plus `noise` times as much.
Heartbeat Beat(const HashConfig& hash, uint32_t k, float common, float noise) {
  Config config;
  config.model.hidden = kHidden;
  config.model.precision = Precision::kFp32;
  const std::vector<SlotId> slots = {{0}};
  Layer layer(LayerKind::kOutput, config, SlotMap(kNeurons, 1, slots), Purpose::kTraining,
              BestKernels());
  Random random(5);
  std::vector<float> mean(kHidden);
  for (float& x : mean) x = common * static_cast<float>(random.Normal());
  for (uint32_t row = 0; row < kNeurons; ++row) {
    for (uint32_t d = 0; d < kHidden; ++d) {
      layer.row(row).weights[d] = mean[d] + noise * static_cast<float>(random.Normal());
    }
  }
  HashConfig of_round = hash;
  of_round.k = k;
  LiveTables tables(of_round, 3, layer, BestKernels());
  tables.CatchUp();
  const BucketOccupancy occupancy = tables.tables().Occupancy();
  Heartbeat beat;
  beat.bucket_mean = static_cast<float>(occupancy.mean);
  beat.bucket_empty_share = static_cast<float>(occupancy.empty_share);
  beat.bucket_p99 = occupancy.p99;
  beat.bucket_largest = occupancy.largest;
  return beat;
}

TEST_CASE("tables of neurons that differ are healthy, of parallel ones they are not") {
  HashConfig hash;
  hash.k = 3;
  CHECK_FALSE(BetterTables(Beat(hash, hash.k, 0, 1), hash, kHidden));
  CHECK_FALSE(BetterTables(Beat(hash, hash.k, 0.3f, 1), hash, kHidden));
  for (const float noise : {0.5f, 0.2f, 0.1f, 0.01f, 0.0f}) {
    CAPTURE(noise);
    const Heartbeat collapsed = Beat(hash, hash.k, 1, noise);
    CHECK(BetterTables(collapsed, hash, kHidden) == RebuildTables{1, hash.k + 1});
  }
  // The rebuilt tables are as bad.
  Heartbeat again = Beat(hash, hash.k + 1, 1, 0.1f);
  again.hash_round = 1;
  CHECK(BetterTables(again, hash, kHidden) == RebuildTables{2, hash.k + 2});
  again.hash_round = kMaxHashRounds;
  CHECK_FALSE(BetterTables(again, hash, kHidden));
}

TEST_CASE("one bucket of many rows is no reason, nor is a table without rows") {
  HashConfig hash;
  hash.k = 4;
  Heartbeat beat;
  CHECK_FALSE(BetterTables(beat, hash, kHidden));
  // As gnd-tibkat's are, at the end.
  beat = {
      .bucket_empty_share = 0.123f, .bucket_mean = 5.74f, .bucket_p99 = 31, .bucket_largest = 148};
  CHECK_FALSE(BetterTables(beat, hash, kHidden));
  beat.bucket_largest = 10'000;
  CHECK_FALSE(BetterTables(beat, hash, kHidden));
  beat.bucket_p99 = 3000;
  CHECK(BetterTables(beat, hash, kHidden) == RebuildTables{1, 5});
}

TEST_CASE("a round has a hash more a table as long as there is room") {
  HashConfig hash;
  hash.k = 4;
  hash.bin = 8;
  CHECK(HashesOfRound(hash, 128, 0) == 4);
  CHECK(HashesOfRound(hash, 128, 1) == 5);
  CHECK(HashesOfRound(hash, 128, 3) == 5);  // 15 bits
  CHECK(HashesOfRound(hash, 36, 1) == 4);   // 4 bins of 8 coordinates
}

}  // namespace
}  // namespace dslide::table_health_test
