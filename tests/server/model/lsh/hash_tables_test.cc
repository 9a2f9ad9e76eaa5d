#include "server/model/lsh/hash_tables.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "common/base/random.h"

namespace dslide::hash_tables_test {
namespace {

using Codes = std::vector<BucketCode>;

// A bucket of each table, by code, as of the last rebuild.
using ReferenceTable = std::map<uint32_t, std::vector<uint32_t>>;

TEST_CASE("HashTables equal a map under random updates and rebuilds") {
  constexpr uint32_t kTables = 5;
  constexpr uint32_t kBits = 4;
  constexpr uint32_t kRows = 60;
  Random random(10);
  HashTables tables(kTables, kBits, kRows);
  std::vector<Codes> codes(kRows, Codes(kTables, kNoCode));
  std::vector<ReferenceTable> reference(kTables);
  // The table being built, and the codes that its rows were counted with.
  uint32_t next = 0;
  uint32_t step_of_table = 0;
  Codes counted(kRows);
  const auto advance = [&](uint64_t steps) {
    for (; steps > 0; --steps) {
      if (step_of_table < kRows) counted[step_of_table] = codes[step_of_table][next];
      if (++step_of_table < 2 * kRows) continue;
      reference[next].clear();
      for (uint32_t row = 0; row < kRows; ++row) {
        if (counted[row] != kNoCode) reference[next][counted[row]].push_back(row);
      }
      step_of_table = 0;
      next = (next + 1) % kTables;
    }
  };
  for (int step = 0; step < 3000; ++step) {
    const uint64_t action = random.Below(20);
    if (action == 0) {
      tables.BuildAll();
      next = step_of_table = 0;
      advance(tables.StepsOfAllTables());
    } else if (action < 4) {
      const uint64_t steps = random.Below(5 * kRows);
      tables.Advance(steps);
      advance(steps);
    } else {
      const uint32_t row = static_cast<uint32_t>(random.Below(kRows));
      const bool leaves = random.Below(5) == 0;
      for (BucketCode& code : codes[row]) {
        code = leaves ? kNoCode : static_cast<BucketCode>(random.Below(1 << kBits));
      }
      tables.SetCodes(row, codes[row]);
      CHECK(tables.Codes(row) == codes[row]);
    }
    for (uint32_t t = 0; t < kTables; ++t) {
      for (BucketCode code = 0; code < (1u << kBits); ++code) {
        const std::span<const uint32_t> bucket = tables.Bucket(t, code);
        const std::vector<uint32_t>& expected = reference[t][code];
        REQUIRE(std::equal(bucket.begin(), bucket.end(), expected.begin(), expected.end()));
      }
    }
  }
}

bool SameBuckets(const HashTables& a, const HashTables& b, uint32_t bits) {
  for (uint32_t t = 0; t < a.size(); ++t) {
    for (uint32_t code = 0; code < 1u << bits; ++code) {
      const auto x = a.Bucket(t, static_cast<BucketCode>(code));
      const auto y = b.Bucket(t, static_cast<BucketCode>(code));
      if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
    }
  }
  return true;
}

TEST_CASE("HashTables: more rows change no bucket, wherever the building is") {
  constexpr uint32_t kTables = 3, kBits = 3, kRows = 40, kMore = 23;
  Random random(12);
  const auto draw = [&] {
    Codes codes(kTables);
    for (BucketCode& code : codes) code = static_cast<BucketCode>(random.Below(1 << kBits));
    return codes;
  };
  for (uint32_t at = 0; at < 2 * kRows * kTables; ++at) {
    CAPTURE(at);
    HashTables tables(kTables, kBits, kRows), same(kTables, kBits, kRows);
    for (HashTables* each : {&tables, &same}) {
      for (uint32_t row = 0; row < kRows; ++row) each->SetCodes(row, Codes(kTables, row % 8));
      each->BuildAll();
    }
    for (uint32_t row = 0; row < kRows; ++row) {
      const Codes codes = draw();
      tables.SetCodes(row, codes);
      same.SetCodes(row, codes);
    }
    tables.Advance(at);
    same.Advance(at);
    tables.Resize(kRows + kMore);
    REQUIRE(tables.rows() == kRows + kMore);
    CHECK(tables.position() == same.position());
    CHECK(SameBuckets(tables, same, kBits));
    for (uint32_t row = 0; row < kRows; ++row) REQUIRE(tables.Codes(row) == same.Codes(row));
    // New rows are in the tables that are counted after they have codes.
    HashTables fresh(kTables, kBits, kRows + kMore);
    for (uint32_t row = 0; row < kRows + kMore; ++row) {
      const Codes codes = row < kRows ? tables.Codes(row) : draw();
      tables.SetCodes(row, codes);
      fresh.SetCodes(row, codes);
    }
    fresh.BuildAll();
    tables.Advance(2 * tables.StepsOfAllTables());
    CHECK(SameBuckets(tables, fresh, kBits));
  }
}

TEST_CASE("HashTables: hidden rows keep their codes and are in no bucket until they are shown") {
  HashTables tables(2, 3, 9);
  for (uint32_t row = 0; row < 9; ++row) tables.SetCodes(row, Codes{1, 2});
  tables.BuildAll();
  tables.Hide(3, 6);
  CHECK(tables.Bucket(0, 1).size() == 9);
  tables.Advance(7);  // what is counted piece by piece
  tables.Advance(tables.StepsOfAllTables() - 7);
  CHECK(tables.Codes(4) == Codes{1, 2});
  const auto bucket = tables.Bucket(1, 2);
  CHECK(std::vector(bucket.begin(), bucket.end()) == std::vector<uint32_t>{0, 1, 2, 6, 7, 8});
  tables.Show(3, 6);
  tables.BuildAll();
  CHECK(tables.Bucket(0, 1).size() == 9);
}

TEST_CASE("HashTables: occupancy by hand") {
  HashTables tables(2, 2, 5);
  const BucketOccupancy none = tables.Occupancy();
  CHECK(none.empty_share == 1.0);
  CHECK(none.mean == 0.0);
  CHECK(none.largest == 0);
  // Table 0: buckets of 3 and 1; table 1: one bucket of 4. Row 4 is in none.
  const std::vector<Codes> codes = {{0, 3}, {0, 3}, {0, 3}, {2, 3}};
  for (uint32_t row = 0; row < codes.size(); ++row) tables.SetCodes(row, codes[row]);
  tables.BuildAll();
  const BucketOccupancy occupancy = tables.Occupancy();
  CHECK(occupancy.empty_share == doctest::Approx(5.0 / 8));
  CHECK(occupancy.mean == doctest::Approx(8.0 / 3));
  CHECK(occupancy.p99 == 4);
  CHECK(occupancy.largest == 4);
  CHECK(occupancy.skew() == doctest::Approx(1.5));
  CHECK(none.skew() == 0);
}

TEST_CASE("HashTables: the 99th percentile leaves the largest of many buckets out") {
  // 127 buckets of one row and one of two.
  HashTables tables(1, 7, 129);
  for (uint32_t row = 0; row < 129; ++row) {
    tables.SetCodes(row, Codes{static_cast<BucketCode>(row % 128)});
  }
  tables.BuildAll();
  CHECK(tables.Occupancy().p99 == 1);
  CHECK(tables.Occupancy().largest == 2);
}

}  // namespace
}  // namespace dslide::hash_tables_test
