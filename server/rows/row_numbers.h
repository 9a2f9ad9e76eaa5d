// Numbers the distinct rows of a batch 0, 1, 2 ... in the order of their first occurrence.
// Memory: 4 bytes a row, of those parts of the rows that batches have; in huge pages, because a
// batch's rows are far apart.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/huge_buffer.h"

namespace dslide {

class RowNumbers {
 public:
  // For local rows [0, rows).
  explicit RowNumbers(uint32_t rows) : above_(rows) {}

  // Extends to local rows [0, rows) and forgets all numbers. REQUIRES that `rows` does not shrink.
  void Grow(uint32_t rows) {
    Clear();
    above_.Grow(rows);
  }

  // Forgets all numbers. Called at the start of each batch, so an aborted batch leaves no trace.
  void Clear() {
    for (const uint32_t row : rows_) above_[row] = 0;
    rows_.clear();
  }

  // The row's number; a row without one gets the next.
  uint32_t Of(uint32_t row) {
    if (above_[row] == 0) {
      rows_.push_back(row);
      above_[row] = static_cast<uint32_t>(rows_.size());
    }
    return above_[row] - 1;
  }

  void Prefetch(uint32_t row) const { __builtin_prefetch(&above_[row]); }

  // The row's number, if it has one.
  std::optional<uint32_t> Find(uint32_t row) const {
    return above_[row] == 0 ? std::nullopt : std::optional(above_[row] - 1);
  }

  // The rows, by number.
  const std::vector<uint32_t>& rows() const { return rows_; }
  uint32_t size() const { return static_cast<uint32_t>(rows_.size()); }

 private:
  HugeBuffer<uint32_t> above_;  // [rows] 1 above the row's number; 0: it has none
  std::vector<uint32_t> rows_;
};

}  // namespace dslide
