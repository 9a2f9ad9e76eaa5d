// Changed rows and their snapshots, against a copy of all rows.
#include "server/rows/changed_rows.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "common/base/random.h"

namespace dslide::changed_rows_test {
namespace {

constexpr uint32_t kRows = 200;

TEST_CASE("row sets: the next row, to the end") {
  RowSet set(130, false);
  CHECK_FALSE(set.Next(0));
  set.Add(0);
  set.Add(64);
  set.Add(129);
  CHECK(set.Next(0) == 0u);
  CHECK(set.Next(1) == 64u);
  CHECK(set.Next(65) == 129u);
  CHECK_FALSE(set.Next(130));
  set.Remove(129);
  CHECK_FALSE(set.Next(65));
  const RowSet full(65, true);
  CHECK(full.Next(64) == 64u);
  CHECK_FALSE(full.Next(65));  // the last word's other bits are no rows
}

TEST_CASE("row sets: ranges, and rows that come") {
  for (const auto& [begin, end] :
       {std::pair{3u, 60u}, {0u, 64u}, {63u, 129u}, {10u, 200u}, {5u, 5u}}) {
    for (const bool in : {true, false}) {
      RowSet set(200, !in);
      set.Set(begin, end, in);
      for (uint32_t row = 0; row < 200; ++row) {
        REQUIRE(set.Has(row) == (begin <= row && row < end ? in : !in));
      }
      CHECK(set.Count() == (in ? end - begin : 200 - (end - begin)));
    }
  }
  RowSet set(70, true);
  set.Grow(300);
  CHECK(set.Count() == 70);
  CHECK_FALSE(set.Next(70));
  set.Add(250);
  CHECK(set.Next(70) == 250u);
  CHECK_FALSE(set.Next(70, 250));
  CHECK(set.Next(70, 251) == 250u);
}

// Rows of one byte that change at random.
struct Rows {
  std::vector<uint8_t> value = std::vector<uint8_t>(kRows);
  std::set<uint32_t> changed;
  ChangedRows rows{kRows};
  Random random{9};
  uint32_t next = 0;

  Rows() {
    for (uint32_t row = 0; row < kRows; ++row) changed.insert(row);
  }
  void Change(uint64_t count) {
    for (uint64_t n = 0; n < count; ++n) {
      const auto row = static_cast<uint32_t>(random.Below(kRows));
      rows.BeforeChange(row);
      value[row]++;
      changed.insert(row);
    }
  }
  // What the snapshot that begins now has to have.
  std::map<uint32_t, uint8_t> Mark() {
    std::map<uint32_t, uint8_t> expected;
    for (const uint32_t row : changed) expected[row] = value[row];
    changed.clear();
    next = 0;
    rows.Mark([this](uint32_t row, std::vector<uint8_t>* out) { out->push_back(value[row]); });
    return expected;
  }
  // The next row in ascending order.
  std::optional<uint32_t> Write(std::vector<uint8_t>* out) {
    const auto row = rows.Write(next, kRows, out);
    if (row) next = *row + 1;
    return row;
  }
};

// Copies of rows that changed may be written before their turn.
TEST_CASE_FIXTURE(Rows, "changed rows: a snapshot is the state at the mark, whatever changes") {
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const bool early = round % 2 == 1;
    const auto expected = Mark();
    std::map<uint32_t, uint8_t> written;
    std::vector<uint8_t> bytes;
    Change(random.Below(100));
    CHECK((rows.aside_bytes() > 0) == !rows.Aside().empty());
    while (true) {
      if (early && random.Below(4) == 0) {
        for (const uint32_t row : rows.Aside()) {
          rows.WriteAside(row, &bytes);
          REQUIRE(written.emplace(row, bytes.back()).second);
        }
        CHECK(rows.Aside().empty());
        CHECK(rows.aside_bytes() == 0);
      }
      const auto row = Write(&bytes);
      if (!row) break;
      if (!early) CHECK((written.empty() || written.rbegin()->first < *row));
      REQUIRE(written.emplace(*row, bytes.back()).second);
      Change(random.Below(3));
    }
    CHECK(bytes.size() == written.size());
    CHECK(written == expected);
    CHECK(rows.aside_bytes() == 0);
  }
}

TEST_CASE_FIXTURE(Rows, "changed rows: what was given up is written by the next snapshot") {
  (void)Mark();
  std::vector<uint8_t> bytes;
  while (Write(&bytes)) {
  }
  for (const bool all : {false, true}) {  // given up half way, or when all was written
    Change(50);
    std::set<uint32_t> owed = changed;
    (void)Mark();
    Change(10);
    for (size_t n = 0; all || n < owed.size() / 2; ++n) {
      if (!Write(&bytes)) break;
    }
    Change(10);
    rows.Abort();
    CHECK_FALSE(Write(&bytes));
    changed.insert(owed.begin(), owed.end());
    const auto expected = Mark();
    std::map<uint32_t, uint8_t> written;
    while (const auto row = Write(&bytes)) written[*row] = bytes.back();
    CHECK(written == expected);
  }
}

TEST_CASE_FIXTURE(Rows, "changed rows: rows that come are changed when they are there") {
  (void)Mark();
  std::vector<uint8_t> bytes;
  while (Write(&bytes)) {
  }
  rows.Grow(kRows + 100);
  value.resize(kRows + 100);
  (void)Mark();
  CHECK_FALSE(rows.Write(0, kRows + 100, &bytes));
  rows.Renew(kRows + 10, kRows + 12);
  (void)Mark();
  CHECK(rows.Write(0, kRows + 100, &bytes) == kRows + 10);
  CHECK(rows.Write(kRows + 11, kRows + 100, &bytes) == kRows + 11);
  CHECK_FALSE(rows.Write(kRows + 12, kRows + 100, &bytes));
}

TEST_CASE_FIXTURE(Rows, "changed rows: what the store has is not written") {
  rows.Forget();
  rows.MarkChanged(77);
  changed = {77};
  const auto expected = Mark();
  std::vector<uint8_t> bytes;
  CHECK(Write(&bytes) == 77u);
  CHECK_FALSE(Write(&bytes));
}

}  // namespace
}  // namespace dslide::changed_rows_test
