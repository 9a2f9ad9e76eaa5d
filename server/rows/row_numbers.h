// Numbers the distinct rows of a batch 0, 1, 2 ... in the order in which they come.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dslide {

class RowNumbers {
 public:
  // For local rows [0, rows).
  explicit RowNumbers(uint32_t rows) : number_(rows, kNone) {}

  // Rows [0, rows) from now on; none is numbered. REQUIRES that they do not become fewer.
  void Grow(uint32_t rows) {
    Clear();
    number_.resize(rows, kNone);
  }

  // Forgets all rows. Each batch begins with it, so a batch that was broken off leaves no trace.
  void Clear() {
    for (const uint32_t row : rows_) number_[row] = kNone;
    rows_.clear();
  }

  // The row's number, a new one if it is new.
  uint32_t Of(uint32_t row) {
    if (number_[row] == kNone) {
      rows_.push_back(row);
      number_[row] = static_cast<uint32_t>(rows_.size() - 1);
    }
    return number_[row];
  }

  // By number.
  const std::vector<uint32_t>& rows() const { return rows_; }
  uint32_t size() const { return static_cast<uint32_t>(rows_.size()); }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;

  std::vector<uint32_t> number_;
  std::vector<uint32_t> rows_;
};

}  // namespace dslide
