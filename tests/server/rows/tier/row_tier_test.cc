// Rows in a file and in few places of memory against an array that has them all.
#include "server/rows/tier/row_tier.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/random.h"
#include "tests/support/results.h"

namespace dslide::row_tier_test {
namespace {

constexpr size_t kFirst = 24, kSecond = 40, kRecord = kFirst + kSecond;
constexpr size_t kExtentBytes = 4096;  // 8 records
using Record = std::vector<uint8_t>;

// The first bytes of a drawn row tell its number.
class Source : public RowSource {
 public:
  void DrawRow(uint32_t row, uint8_t* record) const override {
    std::memset(record, static_cast<int>(row % 251), kRecord);
    std::memcpy(record, &row, sizeof(row));
  }
  Record Of(uint32_t row) const {
    Record record(kRecord);
    DrawRow(row, record.data());
    return record;
  }
};

// A tier beside the array that it stands for.
struct Pair {
  explicit Pair(uint32_t places, bool ring = true, TierFile::Failure failure = {})
      : first(places * kFirst), second(places * kSecond) {
    std::unique_ptr<TierFile> file =
        Ok(TierFile::Create({"/tmp", ring, std::move(failure), kExtentBytes}));
    const std::vector<RowTier::Part> parts = {{first.data(), kFirst}, {second.data(), kSecond}};
    tier = std::make_unique<RowTier>(std::move(file), parts, places);
  }

  void Grow(uint32_t rows) {
    tier->Grow(rows);
    all.resize(rows, Record(kRecord));
  }
  void Reset(uint32_t begin, uint32_t end, bool drawn) {
    tier->Reset(begin, end, drawn);
    for (uint32_t row = begin; row < end; ++row)
      all[row] = drawn ? source.Of(row) : Record(kRecord);
  }
  Record InPlace(uint32_t place) const {
    Record record(first.begin() + static_cast<std::ptrdiff_t>(place * kFirst),
                  first.begin() + static_cast<std::ptrdiff_t>((place + 1) * kFirst));
    record.insert(record.end(), second.begin() + static_cast<std::ptrdiff_t>(place * kSecond),
                  second.begin() + static_cast<std::ptrdiff_t>((place + 1) * kSecond));
    return record;
  }
  void Change(uint32_t row, uint8_t value) {
    const uint32_t place = tier->Hold(row, source);
    REQUIRE(InPlace(place) == all[row]);
    tier->MarkChanged(place);
    first[place * kFirst + 5] = all[row][5] = value;
    second[place * kSecond + 7] = all[row][kFirst + 7] = value;
  }
  void Put(uint32_t row, uint8_t value) {
    all[row] = Record(kRecord, value);
    tier->Put(row, all[row].data());
  }
  bool SamePeek(uint32_t row) {
    return std::memcmp(tier->Peek(row, source), all[row].data(), kRecord) == 0;
  }
  void CheckAll() {
    tier->CheckInvariants();
    bool same = true;
    for (uint32_t row = 0; row < all.size(); ++row) same = same && SamePeek(row);
    CHECK(same);
  }

  Source source;
  std::vector<uint8_t> first, second;
  std::unique_ptr<RowTier> tier;
  std::vector<Record> all;
};

TEST_CASE("the disk tier: after any operations rows are what they were set to") {
  for (const bool ring : {true, false}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(ring);
      CAPTURE(seed);
      Random random(seed);
      Pair pair(64 + static_cast<uint32_t>(random.Below(100)), ring);
      pair.Grow(500);
      pair.Reset(100, 400, true);
      for (int step = 0; step < 3000; ++step) {
        const auto rows = static_cast<uint32_t>(pair.all.size());
        // Some rows more often than others.
        const auto draw = [&] {
          return static_cast<uint32_t>(random.Below(1 + random.Below(rows)));
        };
        const uint32_t row = draw();
        switch (random.Below(9)) {
          case 0: {
            std::vector<uint32_t> some(random.Below(90));
            for (uint32_t& one : some) one = draw();
            pair.tier->Request(some, random.Below(2) == 0, pair.source);
            break;
          }
          case 1:
            pair.Put(row, static_cast<uint8_t>(step));
            break;
          case 2:
            for (uint32_t r = row; r < std::min(rows, row + 70); ++r) {
              pair.Put(r, static_cast<uint8_t>(step + static_cast<int>(r)));
            }
            break;
          case 3:
            for (uint32_t r = row; r < std::min(rows, row + 70); ++r) REQUIRE(pair.SamePeek(r));
            break;
          case 4:
            if (random.Below(40) != 0) break;
            pair.Reset(row, std::min(rows, row + 50), random.Below(2) == 0);
            break;
          case 5:
            if (random.Below(40) == 0) pair.Grow(rows + 30);
            break;
          default:
            pair.Change(row, static_cast<uint8_t>(step));
        }
        if (step % 100 == 0) pair.tier->CheckInvariants();
      }
      pair.CheckAll();
      CHECK(pair.tier->figures().misses > 100);
      CHECK(pair.tier->figures().writes > 100);
    }
  }
}

TEST_CASE("the disk tier: rows that did not change are not written, drawn ones are drawn again") {
  Pair pair(64);
  pair.Grow(1000);
  pair.Reset(0, 1000, true);
  for (int round = 0; round < 3; ++round) {
    for (uint32_t row = 0; row < 1000; ++row) {
      CHECK(pair.InPlace(pair.tier->Hold(row, pair.source)) == pair.source.Of(row));
    }
  }
  CHECK(pair.tier->figures().writes == 0);
  CHECK(pair.tier->figures().misses == 0);
  for (uint32_t row = 0; row < 1000; ++row) pair.Change(row, 9);
  for (int round = 0; round < 3; ++round) {
    for (uint32_t row = 0; row < 1000; ++row) (void)pair.tier->Hold(row, pair.source);
  }
  CHECK(pair.tier->figures().writes == 1000);
  pair.CheckAll();
}

TEST_CASE("the disk tier: rows that are touched often stay, and a scan moves nothing") {
  constexpr uint32_t kRows = 4000, kPlaces = 400, kBatch = 64;
  Pair pair(kPlaces);
  pair.Grow(kRows);
  for (uint32_t row = 0; row < kRows; ++row) pair.Put(row, static_cast<uint8_t>(row));
  Random random(3);
  // A row of rank r with a probability like 1 / (r + 1); ranks are not the rows' order.
  std::vector<double> sums(kRows);
  for (uint32_t r = 0; r < kRows; ++r) sums[r] = (r > 0 ? sums[r - 1] : 0) + 1.0 / (r + 1);
  const auto draw = [&] {
    const double at = random.Uniform() * sums.back();
    const auto rank = static_cast<uint32_t>(std::ranges::lower_bound(sums, at) - sums.begin());
    return rank * 1237 % kRows;
  };
  const auto batches = [&](int count) {
    const RowTier::Figures before = pair.tier->figures();
    for (int n = 0; n < count; ++n) {
      std::vector<uint32_t> rows(kBatch);
      for (uint32_t& row : rows) row = draw();
      pair.tier->Request(rows, true, pair.source);
      for (const uint32_t row : rows) (void)pair.tier->Hold(row, pair.source);
    }
    const RowTier::Figures now = pair.tier->figures();
    return static_cast<double>(now.misses - before.misses) /
           static_cast<double>(now.rows - before.rows);
  };
  batches(3000);
  const double misses = batches(3000);
  // With the 400 heaviest rows in memory, a batch of distinct rows would miss this share:
  double missed = 0, all = 0;
  for (uint32_t r = 0; r < kRows; ++r) {
    const double p = 1.0 / (r + 1) / sums.back();
    const double in_batch = 1 - std::pow(1 - p, kBatch);
    all += in_batch;
    if (r >= kPlaces) missed += in_batch;
  }
  CHECK(misses < 1.25 * missed / all);
  CHECK(misses > missed / all);
  const uint64_t moves = pair.tier->moves();
  pair.CheckAll();
  CHECK(pair.tier->moves() == moves);
}

TEST_CASE("the disk tier: rows of a layer that was in memory are adopted") {
  Pair pair(100);
  for (uint32_t p = 0; p < 100; ++p) {
    std::memset(&pair.first[p * kFirst], static_cast<int>(p), kFirst);
    std::memset(&pair.second[p * kSecond], static_cast<int>(p), kSecond);
  }
  pair.tier->Adopt(80);
  for (uint32_t row = 0; row < 80; ++row) {
    pair.all.push_back(Record(kRecord, static_cast<uint8_t>(row)));
  }
  pair.Grow(300);
  pair.CheckAll();
  for (uint32_t row = 0; row < 300; ++row) pair.Change(row, 200);
  pair.CheckAll();
}

}  // namespace
}  // namespace dslide::row_tier_test
