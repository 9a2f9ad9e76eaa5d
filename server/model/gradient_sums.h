// The gradients of a layer's rows, summed over the batches of a step: what synchronous training
// holds until the step is committed.
//
// The sums are fixed-point numbers, and adding integers is associative: the sums are the same bit
// for bit in any order of the batches. A 64-bit number holds +-2^11 in steps of 2^-52; a float of
// 2^-28 or more is converted without any error, a float below 2^-52 counts as 0. A gradient of the
// mean loss of 2^10 or more means that the model diverged: all sums are then NaN.
// (Reproducible summation by a common grid: Demmel, Nguyen, "Fast Reproducible Floating-Point
// Summation", ARITH 2013, section 3, with a fixed grid.)
//
// Memory: 8 bytes per number of each row that the step touches, whatever the number of batches.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "server/rows/row_numbers.h"

namespace dslide {

// Receives dL/dw ([dim]) and dL/db of a local row.
using RowGradientSink =
    std::function<void(uint32_t row, const float* gradient, float bias_gradient)>;

class GradientSums {
 public:
  // For local rows [0, rows) of `dim` numbers.
  GradientSums(uint32_t rows, size_t dim);

  // Adds `share` times a batch's gradient. The shares of a step's batches add up to 1, which keeps
  // the sums in range.
  void Add(uint32_t row, float share, const float* gradient, float bias_gradient);

  // Calls take() with each row's sum.
  void ForEach(const RowGradientSink& take) const;

  // The rows that have a sum, in the order of ForEach().
  const std::vector<uint32_t>& rows() const { return numbers_.rows(); }

  void Clear();  // keeps the memory

  uint64_t MemoryBytes() const;

 private:
  static constexpr size_t kBlockRows = 256;

  int64_t* SumOf(uint32_t row);
  void AddTo(int64_t* sum, float share, float gradient);

  size_t width_;  // dim, and the bias
  RowNumbers numbers_;
  std::vector<std::unique_ptr<int64_t[]>> blocks_;  // [kBlockRows x width] each, rows by number
  bool overflow_ = false;
};

}  // namespace dslide
