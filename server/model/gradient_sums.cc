#include "server/model/gradient_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dslide {
namespace {

constexpr float kGrid = 0x1p52f;   // grid steps per unit
constexpr float kLimit = 0x1p10f;  // bound of a gradient; 2^11 * 2^52 = 2^63

}  // namespace

GradientSums::GradientSums(uint32_t rows, size_t dim) : width_(dim + 1), numbers_(rows) {}

int64_t* GradientSums::SumOf(uint32_t row) {
  const uint32_t known = numbers_.size();
  const uint32_t number = numbers_.Of(row);
  const size_t block = number / kBlockRows;
  if (block == blocks_.size()) blocks_.emplace_back(new int64_t[kBlockRows * width_]);
  int64_t* sum = blocks_[block].get() + number % kBlockRows * width_;
  if (number == known) std::fill_n(sum, width_, 0);
  return sum;
}

// Adds share * gradient. Rounds towards zero, the same on every machine.
void GradientSums::AddTo(int64_t* sum, float share, float gradient) {
  const bool fits = std::abs(gradient) < kLimit;  // NaN does not
  const auto fixed = fits ? static_cast<int64_t>(share * gradient * kGrid) : 0;
  overflow_ |= !fits || __builtin_add_overflow(*sum, fixed, sum);
}

void GradientSums::Add(uint32_t row, float share, const float* gradient, float bias_gradient) {
  int64_t* sum = SumOf(row);
  const size_t dim = width_ - 1;
  for (size_t d = 0; d < dim; ++d) AddTo(&sum[d], share, gradient[d]);
  AddTo(&sum[dim], share, bias_gradient);
}

void GradientSums::ForEach(const RowGradientSink& take) const {
  std::vector<float> gradient(width_);
  for (uint32_t number = 0; number < numbers_.size(); ++number) {
    const int64_t* sum = blocks_[number / kBlockRows].get() + number % kBlockRows * width_;
    for (size_t d = 0; d < width_; ++d) gradient[d] = static_cast<float>(sum[d]) / kGrid;
    if (overflow_)
      std::fill(gradient.begin(), gradient.end(), std::numeric_limits<float>::quiet_NaN());
    take(numbers_.rows()[number], gradient.data(), gradient.back());
  }
}

void GradientSums::Clear() {
  numbers_.Clear();
  overflow_ = false;
}

uint64_t GradientSums::MemoryBytes() const {
  return blocks_.size() * kBlockRows * width_ * sizeof(int64_t);
}

}  // namespace dslide
