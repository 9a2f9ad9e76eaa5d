// Hash tables that follow a layer's weights, against tables built anew.
#include "server/model/lsh/live_tables.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/server/model/lsh/table_layer.h"

namespace dslide::live_tables_test {
namespace {

constexpr uint32_t kMost = 4096;  // rows of the model looked through a batch

TEST_CASE("live tables: every neuron is in one bucket a table, padding in none") {
  const Layer layer = MakeLayer(kSmall);
  const LiveTables tables = Fresh(layer, Hashes(5));
  for (uint32_t t = 0; t < 5; ++t) {
    size_t entries = 0;
    for (uint32_t code = 0; code < tables.functions().buckets(); ++code) {
      for (const uint32_t row : tables.tables().Bucket(t, static_cast<BucketCode>(code))) {
        REQUIRE(IsNeuron(layer, row));
        REQUIRE(tables.tables().Codes(row)[t] == code);
        ++entries;
      }
    }
    CHECK(entries == kSmall);
  }
  std::vector<float> weights(kDim);
  std::vector<BucketCode> codes(5);
  for (uint32_t row = 0; row < layer.map().rows(); ++row) {
    if (!IsNeuron(layer, row)) continue;
    layer.Gather({&row, 1}, weights.data());
    tables.functions().Codes(1, weights.data(), kDim, codes.data());
    REQUIRE(tables.tables().Codes(row) == codes);
  }
}

void CheckLag(uint32_t ids, const HashConfig& config) {
  Layer layer = MakeLayer(ids);
  LiveTables tables = Fresh(layer, config);
  const uint32_t round = tables.round_batches();
  Random random(3);
  for (uint32_t phase = 0; phase < 2 * round; phase += 1 + round / 8) {
    CAPTURE(phase);
    for (uint32_t batch = 0; batch < phase; ++batch) tables.Advance();
    ChangeSome(&layer, &tables, 3, &random);
    CHECK_FALSE(SameBuckets(tables, Fresh(layer, config)));
    for (uint32_t batch = 0; batch < tables.lag_batches(); ++batch) tables.Advance();
    CHECK(SameCodes(tables, Fresh(layer, config)));
    CHECK(SameBuckets(tables, Fresh(layer, config)));
  }
}

TEST_CASE("live tables: buckets follow a change within lag_batches(), whenever it comes") {
  CheckLag(kSmall, Hashes(1));
  CheckLag(kSmall, Hashes(2));
  CheckLag(kSmall, Hashes(8));
  CheckLag(kSmall, Hashes(11));
  CheckLag(kSmall, Hashes(24));
  CheckLag(9 * kMost + 5, Hashes(13));
  CheckLag(11 * kMost + 5, Hashes(3));
}

TEST_CASE("live tables: codes follow a change within round_batches(), while changes go on") {
  Layer layer = MakeLayer(kSmall);
  LiveTables tables = Fresh(layer, Hashes(3));
  Random random(4);
  for (int batch = 0; batch < 40; ++batch) {
    ChangeSome(&layer, &tables, 5, &random);
    tables.Advance();
  }
  CHECK_FALSE(SameCodes(tables, Fresh(layer, Hashes(3))));
  for (uint32_t batch = 0; batch < tables.round_batches(); ++batch) tables.Advance();
  CHECK(SameCodes(tables, Fresh(layer, Hashes(3))));
}

// Codes that no row has by its weights alone.
std::vector<BucketCode> CodesOfOwn(uint32_t row, uint32_t tables) {
  std::vector<BucketCode> codes(tables);
  for (uint32_t t = 0; t < tables; ++t) codes[t] = static_cast<BucketCode>((row + 7 * t) % 64);
  return codes;
}

TEST_CASE("live tables: rows that did not change are not hashed again") {
  constexpr uint32_t kTables = 9;
  Layer layer = MakeLayer(kSmall);
  LiveTables tables = Tables(layer, Hashes(kTables));
  for (uint32_t row = 0; row < layer.map().rows(); ++row) {
    if (IsNeuron(layer, row)) tables.RestoreRow(row, CodesOfOwn(row, kTables), false);
  }
  tables.CatchUp();
  const std::vector<uint32_t> touched = {0, 1, 125, 130, 500, 999};
  for (const uint32_t row : touched) tables.Touch(row);
  for (uint32_t batch = 0; batch < tables.lag_batches(); ++batch) tables.Advance();
  const LiveTables fresh = Fresh(layer, Hashes(kTables));
  for (uint32_t row = 0; row < layer.map().rows(); ++row) {
    if (!IsNeuron(layer, row)) continue;
    const bool is_touched = std::find(touched.begin(), touched.end(), row) != touched.end();
    CHECK(tables.tables().Codes(row) ==
          (is_touched ? fresh.tables().Codes(row) : CodesOfOwn(row, kTables)));
    for (uint32_t t = 0; t < kTables; ++t) {
      const auto bucket = tables.tables().Bucket(t, tables.tables().Codes(row)[t]);
      REQUIRE(std::find(bucket.begin(), bucket.end(), row) != bucket.end());
    }
  }
}

// Hashed rows and finished tables are seen because they have no codes before.
void CheckWorkOfOneBatch(uint32_t ids, uint32_t table_count) {
  Layer layer = MakeLayer(ids);
  LiveTables tables = Tables(layer, Hashes(table_count));
  const uint32_t round = tables.round_batches();
  const uint32_t rows = layer.map().rows();
  const std::vector<BucketCode> none(table_count, kNoCode);
  for (uint32_t row = 0; row < rows; ++row) tables.RestoreRow(row, none, false);
  tables.CatchUp();
  tables.TouchAll();
  std::vector<uint32_t> hashed_in(rows);
  std::vector<uint32_t> built_in(table_count);
  for (uint32_t batch = 1; batch <= tables.lag_batches(); ++batch) {
    tables.Advance();
    for (uint32_t row = 0; row < rows; ++row) {
      if (hashed_in[row] == 0 && tables.tables().Codes(row) != none) hashed_in[row] = batch;
    }
    for (uint32_t t = 0; t < table_count; ++t) {
      for (uint32_t code = 0; built_in[t] == 0 && code < tables.functions().buckets(); ++code) {
        if (!tables.tables().Bucket(t, static_cast<BucketCode>(code)).empty()) built_in[t] = batch;
      }
    }
  }
  for (uint32_t batch = 1; batch <= round; ++batch) {
    const auto hashed = std::count(hashed_in.begin(), hashed_in.end(), batch);
    CHECK(hashed <= kMost);
    CHECK(hashed <= (rows + round - 1) / round);
    CHECK(std::count(built_in.begin(), built_in.end(), batch) <= (table_count + round - 1) / round);
  }
  for (uint32_t row = 0; row < rows; ++row) {
    if (IsNeuron(layer, row)) CHECK((hashed_in[row] >= 1 && hashed_in[row] <= round));
    if (!IsNeuron(layer, row)) CHECK(hashed_in[row] == 0);
  }
  for (const uint32_t batch : built_in) CHECK(batch > 0);
}

TEST_CASE("live tables: the work of one batch is bounded") {
  CheckWorkOfOneBatch(kSmall, 5);
  CheckWorkOfOneBatch(kSmall, 24);
  CheckWorkOfOneBatch(9 * kMost + 5, 3);
  CheckWorkOfOneBatch(10 * kMost, 20);
}

TEST_CASE(
    "live tables: an owner of a part has its part of the work, and buckets lag as elsewhere") {
  const uint32_t ids = 16 * kMost;
  const Layer whole = MakeLayer(ids);
  Layer part = MakeLayer(ids, Precision::kFp32, 2);
  const LiveTables all = Tables(whole, Hashes(3));
  LiveTables tables = Fresh(part, Hashes(3));
  CHECK(tables.lag_batches() == all.lag_batches());
  CHECK(tables.build_steps() <= all.build_steps() * 2 / kSlots + 1);
  tables.TouchAll();
  tables.Advance();
  uint32_t hashed = 0;
  for (uint32_t row = 0; row < part.map().rows(); ++row) {
    hashed += IsNeuron(part, row) && !tables.IsChanged(row);
  }
  CHECK(hashed > 0);
  CHECK(hashed <= kMost * 2 / kSlots + 1);
}

TEST_CASE("live tables: CatchUp is a fresh build, and what follows does not remember the past") {
  Random random(5);
  for (const HashConfig& config : {Hashes(7), Hashes(10)}) {
    Layer layer = MakeLayer(kSmall);
    LiveTables old = Fresh(layer, config);
    for (int batch = 0; batch < 13; ++batch) {
      ChangeSome(&layer, &old, 4, &random);
      old.Advance();
    }
    CHECK_FALSE(SameBuckets(old, Fresh(layer, config)));
    old.CatchUp();
    LiveTables fresh = Fresh(layer, config);
    CHECK(SameCodes(old, fresh));
    CHECK(SameBuckets(old, fresh));
    for (int batch = 0; batch < 40; ++batch) {
      const auto row = static_cast<uint32_t>(random.Below(100));
      Change(&layer, row, &random);
      old.Touch(row);
      fresh.Touch(row);
      old.Advance();
      fresh.Advance();
      REQUIRE(SameBuckets(old, fresh));
      REQUIRE(SameCodes(old, fresh));
    }
  }
}

TEST_CASE("live tables: bf16 rows are hashed as the fp32 rows of the same values") {
  const HashConfig config = Hashes(8);
  const Layer narrow = MakeLayer(kSmall, Precision::kBf16);
  Layer wide = MakeLayer(kSmall);
  CHECK_FALSE(SameBuckets(Fresh(narrow, config), Fresh(wide, config)));
  for (uint32_t row = 0; row < narrow.map().rows(); ++row) {
    narrow.Gather({&row, 1}, wide.row(row).weights);
  }
  CHECK(SameBuckets(Fresh(narrow, config), Fresh(wide, config)));
}

TEST_CASE("live tables: a layer without rows has work for nobody") {
  Config config;
  config.model.hidden = kDim;
  const Layer layer(LayerKind::kOutput, config, SlotMap(kSmall, kSlots, {}), Purpose::kTraining,
                    BestKernels());
  LiveTables tables = Tables(layer, Hashes(3));
  tables.CatchUp();
  for (int batch = 0; batch < 20; ++batch) tables.Advance();
  CHECK(tables.tables().Bucket(2, 5).empty());
}

}  // namespace
}  // namespace dslide::live_tables_test
