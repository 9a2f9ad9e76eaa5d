// Numbers the distinct rows of a batch 0, 1, 2 ... in the order of their first occurrence.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dslide {

class RowNumbers {
 public:
  // For local rows [0, rows).
  explicit RowNumbers(uint32_t rows) : number_(rows, kNone) {}

  // Extends to local rows [0, rows) and forgets all numbers. REQUIRES that `rows` does not shrink.
  void Grow(uint32_t rows) {
    Clear();
    number_.resize(rows, kNone);
  }

  // Forgets all numbers. Called at the start of each batch, so an aborted batch leaves no trace.
  void Clear() {
    for (const uint32_t row : rows_) number_[row] = kNone;
    rows_.clear();
  }

  // The row's number; a row without one gets the next.
  uint32_t Of(uint32_t row) {
    if (number_[row] == kNone) {
      rows_.push_back(row);
      number_[row] = static_cast<uint32_t>(rows_.size() - 1);
    }
    return number_[row];
  }

  // The row's number, if it has one.
  std::optional<uint32_t> Find(uint32_t row) const {
    return number_[row] == kNone ? std::nullopt : std::optional(number_[row]);
  }

  // The rows, by number.
  const std::vector<uint32_t>& rows() const { return rows_; }
  uint32_t size() const { return static_cast<uint32_t>(rows_.size()); }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;

  std::vector<uint32_t> number_;
  std::vector<uint32_t> rows_;
};

}  // namespace dslide
