#include "server/changed_rows.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace dslide {

void RowSet::Clear() { std::fill(words_.begin(), words_.end(), 0); }

void RowSet::Fill() { std::fill(words_.begin(), words_.end(), ~uint64_t{0}); }

void RowSet::AddAll(const RowSet& other) {
  for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
}

std::optional<uint32_t> RowSet::Next(uint32_t begin) const {
  if (begin >= rows_) return std::nullopt;
  size_t w = begin / 64;
  uint64_t word = words_[w] & ~uint64_t{0} << begin % 64;
  while (word == 0) {
    if (++w == words_.size()) return std::nullopt;
    word = words_[w];
  }
  const auto row = static_cast<uint32_t>(w * 64 + static_cast<size_t>(std::countr_zero(word)));
  return row < rows_ ? std::optional(row) : std::nullopt;
}

ChangedRows::ChangedRows(uint32_t rows)
    : changed_(rows, true), snapshot_(rows, false), unwritten_(rows, false) {}

void ChangedRows::SetAside(uint32_t row) {
  std::vector<uint8_t> copy;
  store_(row, &copy);
  aside_.emplace(row, std::move(copy));
  unwritten_.Remove(row);
}

void ChangedRows::Mark(Store store) {
  std::swap(snapshot_, changed_);
  changed_.Clear();
  unwritten_ = snapshot_;
  store_ = std::move(store);
  next_ = 0;
  aside_.clear();
}

std::optional<uint32_t> ChangedRows::Write(std::vector<uint8_t>* out) {
  const std::optional<uint32_t> row = snapshot_.Next(next_);
  if (!row) return std::nullopt;
  next_ = *row + 1;
  if (unwritten_.Has(*row)) {
    store_(*row, out);
    unwritten_.Remove(*row);
  } else {
    auto copy = aside_.extract(*row);
    out->insert(out->end(), copy.mapped().begin(), copy.mapped().end());
  }
  return row;
}

void ChangedRows::Abort() {
  changed_.AddAll(snapshot_);
  snapshot_.Clear();
  unwritten_.Clear();
  aside_.clear();
}

}  // namespace dslide
