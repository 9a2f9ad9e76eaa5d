// A sum over a batch's rows, [B x cols], of parts that are each computed in fp32.
//
// Asynchronous training adds the parts up in fp32. Synchronous training adds them up in fixed point
// (common/math/exact_sums.h): the sum then depends on the parts, but not on who has which.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "common/wire/messages.h"
#include "server/rows/layer.h"

namespace dslide {

class PartialSums {
 public:
  PartialSums(uint32_t rows, uint32_t cols, bool fixed) : part_(rows, cols) {
    if (fixed) fixed_.emplace(rows, cols);
  }

  // Where a part is added to.
  Matrix* part() { return &part_; }
  // Call after each part.
  void EndPart() {
    if (!fixed_) return;
    const size_t size = part_.data.size();
    fixed_->in_range &= MoveToFixed(size, part_.data.data(), fixed_->data.data());
  }
  // Row `sample` of the sum = sum over e of factors[e] times row rows[e] of the layer, each row a
  // part. REQUIRES that it is 0.
  void AddRows(const Layer& layer, std::span<const uint32_t> rows, const float* factors,
               size_t sample) {
    float* part = part_.row(sample);
    if (!fixed_) return layer.WeightedSum(rows, factors, part);
    for (size_t e = 0; e < rows.size(); ++e) {
      layer.WeightedSum(rows.subspan(e, 1), factors + e, part);
      fixed_->in_range &= MoveToFixed(part_.cols, part, fixed_->row(sample));
    }
  }
  // Row `sample` of the sum += factor * x [cols], a part. REQUIRES that other parts have ended.
  void Add(const Kernels& kernels, float factor, const float* x, size_t sample) {
    float* part = part_.row(sample);
    kernels.axpy(part_.cols, factor, x, part);
    if (fixed_) fixed_->in_range &= MoveToFixed(part_.cols, part, fixed_->row(sample));
  }
  // The sum of all parts.
  PartialSum Take() {
    if (fixed_) return std::move(*fixed_);
    return std::move(part_);
  }

 private:
  Matrix part_;  // or the whole sum
  std::optional<FixedMatrix> fixed_;
};

}  // namespace dslide
