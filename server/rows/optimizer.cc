#include "server/rows/optimizer.h"

#include <cmath>

namespace dslide {
namespace {

// w += a * x
void Add(const Kernels& kernels, size_t n, float a, const float* x, float* w, uint32_t) {
  kernels.axpy(n, a, x, w);
}
void Add(const Kernels& kernels, size_t n, float a, const float* x, uint16_t* w, uint32_t noise) {
  kernels.axpy_bf16(n, a, x, w, noise);
}

// w -= share * w
void Shrink(const Kernels& kernels, size_t n, float share, float* w, uint32_t) {
  kernels.axpy(n, -share, w, w);
}
void Shrink(const Kernels& kernels, size_t n, float share, uint16_t* w, uint32_t noise) {
  std::vector<float> copy(n);
  kernels.from_bf16(n, w, copy.data());
  kernels.axpy_bf16(n, -share, copy.data(), w, noise);
}

void AdamVectors(const Kernels& kernels, size_t n, const AdamStep& step, const float* g,
                 const RowOf<float, float>& row, uint32_t) {
  kernels.adam(n, step, g, row.weights, row.moment1, row.moment2);
}
void AdamVectors(const Kernels& kernels, size_t n, const AdamStep& step, const float* g,
                 const RowOf<uint16_t, float>& row, uint32_t noise) {
  kernels.adam_bf16(n, step, g, row.weights, row.moment1, row.moment2, noise);
}
void AdamVectors(const Kernels& kernels, size_t n, const AdamStep& step, const float* g,
                 const RowOf<uint16_t, uint16_t>& row, uint32_t noise) {
  kernels.adam_all_bf16(n, step, g, row.weights, row.moment1, row.moment2, noise);
}

}  // namespace

Optimizer::Optimizer(const TrainConfig& config, const Kernels& kernels)
    : kernels_(kernels), kind_(config.optimizer), weight_decay_(config.weight_decay) {
  constexpr uint32_t kTabled = 4096;
  if (kind_ != OptimizerKind::kAdam) return;
  for (uint32_t t = 0; t < kTabled; ++t) corrections_.push_back(CorrectionAt(t));
}

Optimizer::Correction Optimizer::CorrectionAt(uint32_t t) const {
  if (t < corrections_.size()) return corrections_[t];
  return {1.0 - std::pow(double{kBeta1}, t), std::sqrt(1.0 - std::pow(double{kBeta2}, t))};
}

template <typename Weight, typename Moment>
void Optimizer::Apply(const Step& step, size_t dim, const RowOf<Weight, Moment>& row,
                      uint32_t noise) const {
  row.scalars->steps++;
  if (step.decay && weight_decay_ > 0) {
    Shrink(kernels_, dim, step.learning_rate * weight_decay_, row.weights, ~noise);
  }
  switch (kind_) {
    case OptimizerKind::kAdam:
      Adam(step, dim, row, noise);
      break;
    case OptimizerKind::kAdaGrad:
      AdaGrad(step, dim, row, noise);
      break;
    case OptimizerKind::kSgd:
      Add(kernels_, dim, -step.learning_rate, step.gradient, row.weights, noise);
      row.scalars->bias -= step.learning_rate * step.bias_gradient;
      break;
  }
}

template <typename Weight, typename Moment>
void Optimizer::Adam(const Step& step, size_t dim, const RowOf<Weight, Moment>& row,
                     uint32_t noise) const {
  const Correction correction = CorrectionAt(row.scalars->steps);
  const AdamStep adam{static_cast<float>(step.learning_rate * correction.second / correction.first),
                      kBeta1, kBeta2, static_cast<float>(kEpsilon * correction.second)};
  AdamVectors(kernels_, dim, adam, step.gradient, row, noise);
  RowScalars& s = *row.scalars;
  s.moment1 = kBeta1 * s.moment1 + (1 - kBeta1) * step.bias_gradient;
  s.moment2 = kBeta2 * s.moment2 + (1 - kBeta2) * step.bias_gradient * step.bias_gradient;
  s.bias -= adam.step_size * s.moment1 / (std::sqrt(s.moment2) + adam.epsilon);
}

template <typename Weight, typename Moment>
void Optimizer::AdaGrad(const Step& step, size_t dim, const RowOf<Weight, Moment>& row,
                        uint32_t noise) const {
  const float squares =
      kernels_.dot(dim, step.gradient, step.gradient) + step.bias_gradient * step.bias_gradient;
  row.scalars->moment2 += squares / static_cast<float>(dim + 1);
  const float rate = step.learning_rate / (std::sqrt(row.scalars->moment2) + kEpsilon);
  Add(kernels_, dim, -rate, step.gradient, row.weights, noise);
  row.scalars->bias -= rate * step.bias_gradient;
}

template void Optimizer::Apply(const Step&, size_t, const RowOf<float, float>&, uint32_t) const;
template void Optimizer::Apply(const Step&, size_t, const RowOf<uint16_t, float>&, uint32_t) const;
template void Optimizer::Apply(const Step&, size_t, const RowOf<uint16_t, uint16_t>&,
                               uint32_t) const;

}  // namespace dslide
