#include "server/rows/changed_rows.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"

namespace dslide {

void RowSet::Clear() { std::fill(words_.begin(), words_.end(), 0); }

void RowSet::Fill() { std::fill(words_.begin(), words_.end(), ~uint64_t{0}); }

uint32_t RowSet::Count() const {
  uint32_t count = 0;
  for (std::optional<uint32_t> row = Next(0); row; row = Next(*row + 1)) count++;
  return count;
}

void RowSet::AddAll(const RowSet& other) {
  for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
}

void RowSet::Set(uint32_t begin, uint32_t end, bool in) {
  for (uint32_t row = begin; row < end;) {
    if (row % 64 == 0 && end - row >= 64) {
      words_[row / 64] = in ? ~uint64_t{0} : 0;
      row += 64;
    } else {
      if (in) {
        Add(row);
      } else {
        Remove(row);
      }
      ++row;
    }
  }
}

void RowSet::Grow(uint32_t rows) {
  DSLIDE_CHECK(rows >= rows_);
  // Fill() also set the bits behind the last row.
  if (rows_ % 64 != 0) words_.back() &= ~(~uint64_t{0} << rows_ % 64);
  words_.resize((size_t{rows} + 63) / 64);
  rows_ = rows;
}

void RowSet::Spread(uint32_t before, uint32_t after, uint32_t regions) {
  RowSet spread(after * regions, false);
  for (auto row = Next(0, before * regions); row; row = Next(*row + 1, before * regions)) {
    spread.Add(*row / before * after + *row % before);
  }
  *this = std::move(spread);
}

std::optional<uint32_t> RowSet::Next(uint32_t begin, uint32_t end) const {
  if (begin >= end) return std::nullopt;
  const size_t words = (size_t{end} + 63) / 64;
  size_t w = begin / 64;
  uint64_t word = words_[w] & ~uint64_t{0} << begin % 64;
  while (word == 0) {
    if (++w == words) return std::nullopt;
    word = words_[w];
  }
  const auto row = static_cast<uint32_t>(w * 64 + static_cast<size_t>(std::countr_zero(word)));
  return row < end ? std::optional(row) : std::nullopt;
}

ChangedRows::ChangedRows(uint32_t rows)
    : changed_(rows, true), snapshot_(rows, false), unwritten_(rows, false) {}

void ChangedRows::SetAside(uint32_t row) {
  std::vector<uint8_t> copy;
  store_(row, &copy);
  aside_bytes_ += copy.size() + kCopyBytes;
  aside_.emplace(row, std::move(copy));
  unwritten_.Remove(row);
}

void ChangedRows::ForgetAside() {
  aside_.clear();
  aside_bytes_ = 0;
}

std::vector<uint32_t> ChangedRows::Aside() const {
  std::vector<uint32_t> rows;
  rows.reserve(aside_.size());
  for (const auto& [row, copy] : aside_) rows.push_back(row);
  return rows;
}

void ChangedRows::WriteAside(uint32_t row, std::vector<uint8_t>* out) {
  const auto copy = aside_.extract(row);
  DSLIDE_CHECK(!copy.empty());
  out->insert(out->end(), copy.mapped().begin(), copy.mapped().end());
  aside_bytes_ -= copy.mapped().size() + kCopyBytes;
}

void ChangedRows::Grow(uint32_t rows) {
  changed_.Grow(rows);
  snapshot_.Grow(rows);
  unwritten_.Grow(rows);
}

void ChangedRows::Spread(uint32_t before, uint32_t after, uint32_t regions) {
  ForgetAside();
  changed_.Spread(before, after, regions);
  snapshot_.Spread(before, after, regions);
  unwritten_ = RowSet(after * regions, false);
}

void ChangedRows::Renew(uint32_t begin, uint32_t end) {
  changed_.Set(begin, end, true);
  snapshot_.Set(begin, end, false);
  unwritten_.Set(begin, end, false);
}

void ChangedRows::Mark(Store store) {
  std::swap(snapshot_, changed_);
  changed_.Clear();
  unwritten_ = snapshot_;
  store_ = std::move(store);
  ForgetAside();
}

std::optional<uint32_t> ChangedRows::Write(uint32_t begin, uint32_t end,
                                           std::vector<uint8_t>* out) {
  for (auto row = snapshot_.Next(begin, end); row; row = snapshot_.Next(*row + 1, end)) {
    if (unwritten_.Has(*row)) {
      store_(*row, out);
      unwritten_.Remove(*row);
      return row;
    }
    if (aside_.contains(*row)) {
      WriteAside(*row, out);
      return row;
    }
  }
  return std::nullopt;
}

void ChangedRows::Abort() {
  changed_.AddAll(snapshot_);
  snapshot_.Clear();
  unwritten_.Clear();
  ForgetAside();
}

}  // namespace dslide
