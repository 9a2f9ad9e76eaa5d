#include "server/model/lsh/hash_tables.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace dslide {

BuiltCodes::BuiltCodes(uint32_t tables, uint32_t rows)
    : codes(size_t{tables} * rows), counted(rows, kNoCode) {
  std::fill_n(codes.data(), codes.size(), kNoCode);
}

HashTables::HashTables(uint32_t tables, uint32_t bits, uint32_t rows)
    : tables_(tables),
      rows_(rows),
      buckets_(1u << bits),
      codes_(CodesOf(rows)),
      place_(tables),
      offsets_((tables + size_t{1}) * (buckets_ + size_t{1})),
      entries_(tables + size_t{1}),
      arena_(std::make_shared<HugeBuffer<uint32_t>>((tables + size_t{1}) * rows)),
      free_place_(tables),
      counted_(rows) {
  DSLIDE_CHECK(tables > 0 && bits <= kMaxCodeBits);
  std::iota(place_.begin(), place_.end(), 0u);
  std::fill_n(codes_.data(), codes_.size(), kNoCode);
}

bool HashTables::ValidCodes(std::span<const BucketCode> codes) const {
  return codes.size() == tables_ &&
         std::all_of(codes.begin(), codes.end(), [&](BucketCode code) { return ValidCode(code); });
}

void HashTables::SetCodes(uint32_t row, std::span<const BucketCode> codes) {
  DSLIDE_CHECK(row < rows_ && ValidCodes(codes));
  for (uint32_t t = 0; t < tables_; ++t) codes_[At(t, row)] = codes[t];
}

std::vector<BucketCode> HashTables::Codes(uint32_t row) const {
  DSLIDE_CHECK(row < rows_);
  std::vector<BucketCode> codes(tables_);
  for (uint32_t t = 0; t < tables_; ++t) codes[t] = Code(t, row);
  return codes;
}

void HashTables::Resize(uint32_t rows) {
  DSLIDE_CHECK(rows >= rows_);
  if (rows == rows_) return;
  const size_t before = codes_.size();
  codes_.Grow(CodesOf(rows));
  std::fill(codes_.data() + before, codes_.data() + codes_.size(), kNoCode);
  arena_ = std::make_shared<HugeBuffer<uint32_t>>((tables_ + size_t{1}) * rows);
  // While rows are being placed, the new ones count as counted, without a code.
  counted_.resize(rows, kNoCode);
  rows_ = rows;
}

void HashTables::Show(uint32_t begin, uint32_t end) {
  const auto range = std::find(hidden_.begin(), hidden_.end(), Range{begin, end});
  DSLIDE_CHECK(range != hidden_.end());
  hidden_.erase(range);
}

void HashTables::Advance(uint64_t steps) {
  while (steps > 0 && rows_ > 0) {
    const auto end = static_cast<uint32_t>(std::min<uint64_t>(rows_, row_ + steps));
    steps -= end - row_;
    if (stage_ == Stage::kCount) {
      Count(row_, end);
    } else {
      Place(row_, end);
    }
    row_ = end;
    if (row_ < rows_) return;
    row_ = 0;
    if (stage_ == Stage::kPlace) Finish();
    stage_ = stage_ == Stage::kCount ? Stage::kPlace : Stage::kCount;
  }
}

void HashTables::BuildAll() {
  next_ = 0;
  row_ = 0;
  stage_ = Stage::kCount;
  Advance(StepsOfAllTables());
}

void HashTables::CopyCodes(uint32_t t, uint32_t begin, uint32_t end, BucketCode* to) const {
  while (begin < end) {
    const uint32_t next = std::min(end, (begin / kBlock + 1) * kBlock);
    to = std::copy_n(codes_.data() + At(t, begin), next - begin, to);
    begin = next;
  }
}

void HashTables::Count(uint32_t begin, uint32_t end) {
  CopyCodes(next_, begin, end, counted_.data() + begin);
  for (const Range& range : hidden_) {
    const uint32_t from = std::max(begin, range.begin), to = std::min(end, range.end);
    if (from < to) std::fill(counted_.begin() + from, counted_.begin() + to, kNoCode);
  }
  Tally(begin, end);
}

// offsets[code + 1] = rows with that code; at the end of the stage, where bucket `code` begins.
void HashTables::Tally(uint32_t begin, uint32_t end) {
  uint32_t* ends = OffsetsAt(free_place_) + 1;
  if (begin == 0) std::fill_n(OffsetsAt(free_place_), buckets_ + size_t{1}, 0u);
  for (uint32_t row = begin; row < end; ++row) {
    if (counted_[row] != kNoCode) ++ends[counted_[row]];
  }
  if (end < rows_) return;
  uint32_t total = 0;
  for (uint32_t code = 0; code < buckets_; ++code) total += std::exchange(ends[code], total);
}

// Gives the table being built a place in the newest arena, which has room for all rows. An older
// arena is freed once every table has been built again.
void HashTables::MakeRoom() {
  Entries& entries = entries_[free_place_];
  if (entries.arena == arena_) return;
  if (entries.arena) {
    const auto begin = static_cast<size_t>(entries.data - entries.arena->data());
    entries.arena->GiveBack(begin, begin + entries.rows);
  }
  entries = {arena_, arena_->data() + size_t{free_place_} * rows_, rows_};
}

// Moves each bucket's mark, offsets[code + 1], from the bucket's begin to its end, where the next
// bucket begins. Uses the codes of the counting stage, because rehashing goes on in between.
void HashTables::Place(uint32_t begin, uint32_t end) {
  if (begin == 0) MakeRoom();
  uint32_t* next = OffsetsAt(free_place_) + 1;
  uint32_t* entries = entries_[free_place_].data;
  for (uint32_t row = begin; row < end; ++row) {
    if (counted_[row] != kNoCode) entries[next[counted_[row]]++] = row;
  }
}

void HashTables::Finish() {
  std::swap(free_place_, place_[next_]);
  next_ = (next_ + 1) % tables_;
}

BuiltCodes HashTables::Built() const {
  BuiltCodes built;
  built.codes = HugeBuffer<BucketCode>(size_t{tables_} * rows_);
  for (uint32_t t = 0; t < tables_; ++t) {
    BucketCode* column = built.codes.data() + size_t{t} * rows_;
    std::fill_n(column, rows_, kNoCode);
    for (uint32_t code = 0; code < buckets_; ++code) {
      for (const uint32_t row : Bucket(t, static_cast<BucketCode>(code))) {
        column[row] = static_cast<BucketCode>(code);
      }
    }
  }
  built.counted = counted_;
  built.position = position();
  return built;
}

void HashTables::Restore(BuiltCodes built) {
  DSLIDE_CHECK(built.codes.size() == size_t{tables_} * rows_ && built.counted.size() == rows_);
  const BuildPosition& at = built.position;
  DSLIDE_CHECK(at.table < tables_ && at.row <= rows_);
  next_ = 0;
  for (uint32_t t = 0; t < tables_; ++t) {
    std::copy_n(built.codes.data() + size_t{t} * rows_, rows_, counted_.data());
    Tally(0, rows_);
    Place(0, rows_);
    Finish();
  }
  next_ = at.table;
  row_ = at.row;
  stage_ = at.placing ? Stage::kPlace : Stage::kCount;
  counted_ = std::move(built.counted);
  if (at.placing) {
    Tally(0, rows_);
    Place(0, row_);
  } else if (row_ > 0) {
    Tally(0, row_);
  }
}

uint64_t HashTables::MemoryBytes() const {
  return sizeof(BucketCode) * (size_t{tables_} + 1) * rows_ +
         sizeof(uint32_t) * (place_.size() + offsets_.size() + arena_->size());
}

BucketOccupancy HashTables::Occupancy() const {
  std::vector<uint32_t> sizes;  // of the non-empty buckets
  for (uint32_t t = 0; t < tables_; ++t) {
    for (uint32_t code = 0; code < buckets_; ++code) {
      if (const size_t size = Bucket(t, static_cast<BucketCode>(code)).size(); size > 0) {
        sizes.push_back(static_cast<uint32_t>(size));
      }
    }
  }
  const double total = static_cast<double>(tables_) * buckets_;
  const double filled = static_cast<double>(sizes.size());
  BucketOccupancy occupancy = {.empty_share = 1.0 - filled / total};
  if (sizes.empty()) return occupancy;
  occupancy.mean =
      std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(sizes.size());
  occupancy.largest = *std::max_element(sizes.begin(), sizes.end());
  const auto p99 = sizes.begin() + static_cast<ptrdiff_t>((sizes.size() * 99 + 99) / 100 - 1);
  std::nth_element(sizes.begin(), p99, sizes.end());
  occupancy.p99 = *p99;
  return occupancy;
}

}  // namespace dslide
