// The buckets of one executor: L compact tables from bucket code to neuron rows.
//
// A table is bucket offsets (2^bits + 1) and one array of row numbers sorted by bucket: 4 bytes an
// entry, plus 2 for the row's current code, hence 6 bytes x L per neuron (and one spare table, see
// Advance). Adding rows copies nothing: codes lie in blocks of rows, and a table gets room for the
// new rows at its next build. A row whose weights changed gets its new codes at once (SetCodes); a
// table follows at its next build, a counting sort. Building advances by small steps, one table
// after the other, so that it never stops the world.
//
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/huge_buffer.h"
#include "server/model/lsh/dwta.h"

namespace dslide {

// How the buckets are filled, over all tables.
struct BucketOccupancy {
  double empty_share = 0;  // of buckets
  double mean = 0;         // rows per non-empty bucket
  uint32_t p99 = 0;        // rows that 99 of 100 non-empty buckets do not exceed
  uint32_t largest = 0;    // rows
  double skew() const { return mean > 0 ? largest / mean : 0; }
};

// Progress of building the tables: rows below `row` have passed the present stage of `table`.
struct BuildPosition {
  uint32_t table = 0;
  bool placing = false;  // the stage: false counts rows, true places them
  uint32_t row = 0;
  bool operator==(const BuildPosition&) const = default;
};

// The codes that the tables were built from, at one moment. With the rows' current codes they
// determine the tables.
struct BuiltCodes {
  BuiltCodes() = default;
  // No row has a code.
  BuiltCodes(uint32_t tables, uint32_t rows);

  HugeBuffer<BucketCode> codes;     // [tables x rows] as of each table's last build
  std::vector<BucketCode> counted;  // [rows] as counted by the table being built
  BuildPosition position;
};

class HashTables {
 public:
  // Tables over rows [0, rows), all of them without a code (in no bucket) at first.
  HashTables(uint32_t tables, uint32_t bits, uint32_t rows);

  uint32_t size() const { return tables_; }
  uint32_t rows() const { return rows_; }

  bool ValidCode(BucketCode code) const { return code < buckets_ || code == kNoCode; }
  bool ValidCodes(std::span<const BucketCode> codes) const;
  // Sets a row's current codes (kNoCode in all: the row leaves its buckets). REQUIRES ValidCodes.
  void SetCodes(uint32_t row, std::span<const BucketCode> codes);
  // The row's current codes, [size()].
  std::vector<BucketCode> Codes(uint32_t row) const;
  BucketCode Code(uint32_t t, uint32_t row) const { return codes_[At(t, row)]; }

  // Adds rows without codes. Buckets and build progress stay. Takes time for the new rows only.
  // REQUIRES rows >= rows().
  void Resize(uint32_t rows);

  // Leaves rows [begin, end) out of the tables that are built from now on; they keep their codes.
  // Show() undoes that. REQUIRES that Show() gets the same range as Hide().
  void Hide(uint32_t begin, uint32_t end) { hidden_.push_back({begin, end}); }
  void Show(uint32_t begin, uint32_t end);

  // Continues building by up to `steps` steps; a table takes 2 * rows() of them (each row is
  // counted, then placed). A finished table replaces its predecessor. It contains the codes that
  // the rows had when they were counted.
  void Advance(uint64_t steps);
  uint64_t StepsOfAllTables() const { return uint64_t{2} * rows_ * tables_; }
  void BuildAll();

  BuildPosition position() const { return {next_, stage_ == Stage::kPlace, row_}; }
  // The codes that the tables were built from. Takes about 0.5 ms per table and 300,000 rows.
  BuiltCodes Built() const;
  // Together with SetCodes() of the current codes, restores the tables whose Built() was `built`.
  // REQUIRES valid codes of these tables' size and a position within them.
  void Restore(BuiltCodes built);

  // Rows in bucket `code` of table `t`, ascending, as of the table's last build; none before the
  // first.
  std::span<const uint32_t> Bucket(uint32_t t, BucketCode code) const {
    const uint32_t* offsets = OffsetsAt(place_[t]) + code;
    return {entries_[place_[t]].data + offsets[0], offsets[1] - offsets[0]};
  }

  BucketOccupancy Occupancy() const;
  uint64_t MemoryBytes() const;
  // Memory that one row adds.
  uint64_t RowBytes() const {
    return sizeof(BucketCode) * (tables_ + uint64_t{1}) +
           sizeof(uint32_t) * (tables_ + uint64_t{1});
  }

 private:
  enum class Stage { kCount, kPlace };
  struct Range {
    uint32_t begin;
    uint32_t end;
    bool operator==(const Range&) const = default;
  };

  struct Entries {  // of a table, in the newest arena at the time of its build
    std::shared_ptr<HugeBuffer<uint32_t>> arena;
    uint32_t* data = nullptr;  // [rows]
    uint32_t rows = 0;
  };
  static constexpr uint32_t kBlock = 4096;  // rows

  // Index of a code in codes_: blocks x tables x rows of the block.
  size_t At(uint32_t t, uint32_t row) const {
    return (size_t{row / kBlock} * tables_ + t) * kBlock + row % kBlock;
  }
  size_t CodesOf(uint32_t rows) const {
    return (size_t{rows} + kBlock - 1) / kBlock * kBlock * tables_;
  }
  const uint32_t* OffsetsAt(uint32_t place) const {
    return offsets_.data() + place * (size_t{buckets_} + 1);
  }
  uint32_t* OffsetsAt(uint32_t place) { return offsets_.data() + place * (size_t{buckets_} + 1); }
  void CopyCodes(uint32_t t, uint32_t begin, uint32_t end, BucketCode* to) const;
  void MakeRoom();
  void Count(uint32_t begin, uint32_t end);
  void Tally(uint32_t begin, uint32_t end);
  void Place(uint32_t begin, uint32_t end);
  void Finish();

  uint32_t tables_;
  uint32_t rows_;
  uint32_t buckets_;
  HugeBuffer<BucketCode> codes_;
  std::vector<Range> hidden_;  // disjoint
  // There are places for L + 1 tables; table t is at place_[t].
  std::vector<uint32_t> place_;                  // [tables]
  HugeBuffer<uint32_t> offsets_;                 // [(tables + 1) x (buckets + 1)]
  std::vector<Entries> entries_;                 // [tables + 1]
  std::shared_ptr<HugeBuffer<uint32_t>> arena_;  // [(tables + 1) x rows]
  // The table being built is `next_`; rows below `row_` have passed the current stage.
  uint32_t free_place_;
  std::vector<BucketCode> counted_;  // [rows] the code that a row was counted with
  uint32_t next_ = 0;
  Stage stage_ = Stage::kCount;
  uint32_t row_ = 0;
};

}  // namespace dslide
