#include "server/lsh/hash_tables.h"

#include <algorithm>

#include "common/base/check.h"

namespace dslide {

HashTables::HashTables(uint32_t tables, uint32_t bits, uint32_t rows)
    : tables_(tables),
      rows_(rows),
      buckets_(1u << bits),
      codes_(size_t{rows} * tables, kNoCode),
      offsets_(size_t{tables} * (size_t{buckets_} + 1), 0),
      entries_(size_t{tables} * rows, 0) {
  DSLIDE_CHECK(tables > 0 && bits < 32);
}

void HashTables::SetCodes(uint32_t row, std::span<const uint32_t> codes) {
  DSLIDE_CHECK(row < rows_ && codes.size() == tables_);
  for (uint32_t code : codes) DSLIDE_CHECK(code < buckets_ || code == kNoCode);
  std::copy(codes.begin(), codes.end(), codes_.begin() + static_cast<ptrdiff_t>(row) * tables_);
}

std::span<const uint32_t> HashTables::Codes(uint32_t row) const {
  DSLIDE_CHECK(row < rows_);
  return {codes_.data() + size_t{row} * tables_, tables_};
}

void HashTables::RebuildNext() {
  Rebuild(next_);
  next_ = (next_ + 1) % tables_;
}

void HashTables::RebuildAll() {
  for (uint32_t t = 0; t < tables_; ++t) Rebuild(t);
}

std::span<const uint32_t> HashTables::Bucket(uint32_t t, uint32_t code) const {
  DSLIDE_CHECK(t < tables_ && code < buckets_);
  const uint32_t* offsets = offsets_.data() + t * (size_t{buckets_} + 1) + code;
  return {entries_.data() + size_t{t} * rows_ + offsets[0], offsets[1] - offsets[0]};
}

void HashTables::Rebuild(uint32_t t) {
  uint32_t* offsets = offsets_.data() + t * (size_t{buckets_} + 1);
  uint32_t* entries = entries_.data() + size_t{t} * rows_;
  const uint32_t* codes = codes_.data() + t;
  std::fill_n(offsets, size_t{buckets_} + 1, 0u);
  for (size_t row = 0; row < rows_; ++row) {
    const uint32_t code = codes[row * tables_];
    if (code != kNoCode) ++offsets[code];
  }
  uint32_t end = 0;
  for (size_t bucket = 0; bucket < buckets_; ++bucket) {
    end += offsets[bucket];
    offsets[bucket] = end;
  }
  offsets[buckets_] = end;
  // Backwards from each bucket's end, so that its rows ascend and its offset ends at its begin.
  for (size_t row = rows_; row-- > 0;) {
    const uint32_t code = codes[row * tables_];
    if (code != kNoCode) entries[--offsets[code]] = static_cast<uint32_t>(row);
  }
}

BucketOccupancy HashTables::Occupancy() const {
  std::vector<uint32_t> sizes;  // of the buckets that are not empty
  for (uint32_t t = 0; t < tables_; ++t) {
    for (uint32_t code = 0; code < buckets_; ++code) {
      if (const size_t size = Bucket(t, code).size(); size > 0) {
        sizes.push_back(static_cast<uint32_t>(size));
      }
    }
  }
  const double total = static_cast<double>(tables_) * buckets_;
  const double filled = static_cast<double>(sizes.size());
  BucketOccupancy occupancy = {.empty_share = 1.0 - filled / total};
  if (sizes.empty()) return occupancy;
  std::sort(sizes.begin(), sizes.end());
  double entries = 0;
  for (uint32_t size : sizes) entries += size;
  occupancy.mean = entries / filled;
  occupancy.p99 = sizes[(sizes.size() * 99 + 99) / 100 - 1];
  occupancy.largest = sizes.back();
  return occupancy;
}

}  // namespace dslide
