// Records in extents of a file against a map of what they are.
#include "server/rows/tier/row_log.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "common/base/random.h"

namespace dslide::row_log_test {
namespace {

constexpr size_t kRecord = 600;        // 1,024 bytes in the file
constexpr size_t kExtentBytes = 8192;  // 8 records

class Rows : public RowLog::Owner {
 public:
  Rows(uint32_t rows, bool ring, size_t extent_bytes = kExtentBytes) : slots(rows), values(rows) {
    Result<std::unique_ptr<TierFile>> file = TierFile::Create({"/tmp", ring, {}, extent_bytes});
    REQUIRE(file.ok());
    log = std::make_unique<RowLog>(*std::move(file), kRecord, this);
    log->Grow(rows);
  }

  void Store(uint32_t row, uint8_t value) {
    Drop(row);
    uint8_t* record = nullptr;
    slots[row] = log->Store(row, &record);
    std::memset(record, value, kRecord);
    values[row] = value;
  }
  void Drop(uint32_t row) {
    if (slots[row] != RowLog::kNoSlot) log->Drop(std::exchange(slots[row], RowLog::kNoSlot));
  }
  // Reads what rows have, all at a time.
  void Read(const std::vector<uint32_t>& rows) {
    for (const uint32_t row : rows) {
      if (slots[row] == RowLog::kNoSlot) continue;
      if (const uint8_t* record = log->InMemory(slots[row])) {
        Arrive(row, record);
      } else {
        log->Read(slots[row], row);
      }
    }
    while (log->in_flight() > 0) log->Await(true);
  }
  // Rows [begin, begin + count) as far as their slots follow each other. Returns how many.
  uint32_t Scan(uint32_t begin, uint32_t count) {
    if (slots[begin] == RowLog::kNoSlot || log->InMemory(slots[begin]) != nullptr) return 0;
    uint32_t run = 1;
    while (run < count && log->Adjacent(slots[begin + run - 1], slots[begin + run])) ++run;
    const TierFile::Aligned records = TierFile::Allocate(run * log->record_bytes());
    log->Scan(slots[begin], run, records.get());
    log->AwaitScans();
    for (uint32_t r = 0; r < run; ++r) Arrive(begin + r, records.get() + r * log->record_bytes());
    return run;
  }
  void CheckInvariants() const {
    uint64_t stored = 0;
    for (const uint32_t slot : slots) stored += slot != RowLog::kNoSlot;
    log->CheckInvariants(stored);
  }

  std::vector<uint32_t> slots;
  std::vector<uint8_t> values;
  std::unique_ptr<RowLog> log;
  uint64_t arrived = 0, wrong = 0, moved = 0;

 private:
  void Arrive(uint32_t row, const uint8_t* record) override {
    ++arrived;
    for (const size_t byte : {size_t{0}, kRecord / 2, kRecord - 1}) {
      wrong += record[byte] != values[row];
    }
  }
  void Take(uint32_t row, uint32_t slot, const uint8_t* record) override {
    if (slots[row] != slot) return;
    Arrive(row, record);
    ++moved;
    Store(row, values[row]);
  }
};

TEST_CASE("a row log: after any operations records are what was stored") {
  // The least extents have four records, whatever their bytes.
  for (const size_t extent_bytes : {kExtentBytes, size_t{512}}) {
    const bool ring = extent_bytes == kExtentBytes;
    Random random(extent_bytes);
    Rows rows(400, ring, extent_bytes);
    for (int step = 0; step < 20'000; ++step) {
      const auto row = static_cast<uint32_t>(random.Below(1 + random.Below(400)));
      switch (random.Below(8)) {
        case 0:
          rows.Drop(row);
          break;
        case 1:
          rows.Read({row, (row + 1) % 400, (row + 77) % 400});
          break;
        case 2:
          rows.Scan(row, 400 - row);
          break;
        case 3:
          if (step > 10'000 && random.Below(100) == 0) {
            const auto more = static_cast<uint32_t>(rows.slots.size() + 10);
            rows.slots.resize(more);
            rows.values.resize(more);
            rows.log->Grow(more);
          }
          break;
        default:
          rows.Store(row, static_cast<uint8_t>(step));
      }
      if (step % 500 == 0) rows.CheckInvariants();
    }
    rows.CheckInvariants();
    CHECK(rows.wrong == 0);
    CHECK(rows.arrived > 1000);
    CHECK(rows.moved > 1000);
  }
}

TEST_CASE("a row log: rows that were stored in order are read in pieces of an extent") {
  Rows rows(64, true);
  for (uint32_t row = 0; row < 64; ++row) rows.Store(row, static_cast<uint8_t>(row));
  while (rows.log->in_flight() > 0) rows.log->Await(true);
  CHECK(rows.Scan(0, 64) == 8);
  CHECK(rows.Scan(8, 56) == 8);
  CHECK(rows.Scan(19, 45) == 5);
  CHECK(rows.arrived == 21);
  CHECK(rows.wrong == 0);
}

// Uniformly drawn rows are the worst: no extent empties faster than others. With three quarters of
// the file in use, the emptiest extent has some half of its records.
TEST_CASE("a row log: what cleaning stores again is bounded") {
  Rows rows(20'000, true);
  for (uint32_t row = 0; row < 20'000; ++row) rows.Store(row, 1);
  rows.moved = 0;
  Random random(3);
  constexpr uint32_t kStores = 100'000;
  for (uint32_t n = 0; n < kStores; ++n) {
    rows.Store(static_cast<uint32_t>(random.Below(20'000)), static_cast<uint8_t>(n));
  }
  CHECK(rows.moved < 1.5 * kStores);
  CHECK(rows.wrong == 0);
  rows.CheckInvariants();
}

}  // namespace
}  // namespace dslide::row_log_test
