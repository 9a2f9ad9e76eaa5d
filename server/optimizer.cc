#include "server/optimizer.h"

#include <cmath>

namespace dslide {

Optimizer::Optimizer(const TrainConfig& config, const Kernels& kernels)
    : kernels_(kernels),
      kind_(config.optimizer),
      beta1_(config.beta1),
      beta2_(config.beta2),
      epsilon_(config.epsilon),
      weight_decay_(config.weight_decay) {
  constexpr uint32_t kTabled = 4096;
  if (kind_ != OptimizerKind::kAdam) return;
  for (uint32_t t = 0; t < kTabled; ++t) corrections_.push_back(CorrectionAt(t));
}

Optimizer::Correction Optimizer::CorrectionAt(uint32_t t) const {
  if (t < corrections_.size()) return corrections_[t];
  return {1.0 - std::pow(double{beta1_}, t), std::sqrt(1.0 - std::pow(double{beta2_}, t))};
}

void Optimizer::Apply(float learning_rate, size_t dim, const float* g, float bias_gradient,
                      bool decay, const RowView& row) const {
  row.scalars->steps++;
  if (decay && weight_decay_ > 0) {
    const float keep = -learning_rate * weight_decay_;
    kernels_.axpy(dim, keep, row.weights, row.weights);
  }
  switch (kind_) {
    case OptimizerKind::kAdam:
      Adam(learning_rate, dim, g, bias_gradient, row);
      break;
    case OptimizerKind::kAdaGrad:
      AdaGrad(learning_rate, dim, g, bias_gradient, row);
      break;
    case OptimizerKind::kSgd:
      kernels_.axpy(dim, -learning_rate, g, row.weights);
      row.scalars->bias -= learning_rate * bias_gradient;
      break;
  }
}

void Optimizer::Adam(float learning_rate, size_t dim, const float* g, float bias_gradient,
                     const RowView& row) const {
  const Correction correction = CorrectionAt(row.scalars->steps);
  const AdamStep step{static_cast<float>(learning_rate * correction.second / correction.first),
                      beta1_, beta2_, static_cast<float>(epsilon_ * correction.second)};
  kernels_.adam(dim, step, g, row.weights, row.moment1, row.moment2);
  RowScalars& s = *row.scalars;
  s.moment1 = beta1_ * s.moment1 + (1 - beta1_) * bias_gradient;
  s.moment2 = beta2_ * s.moment2 + (1 - beta2_) * bias_gradient * bias_gradient;
  s.bias -= step.step_size * s.moment1 / (std::sqrt(s.moment2) + step.epsilon);
}

void Optimizer::AdaGrad(float learning_rate, size_t dim, const float* g, float bias_gradient,
                        const RowView& row) const {
  const float squares = kernels_.dot(dim, g, g) + bias_gradient * bias_gradient;
  row.scalars->moment2 += squares / static_cast<float>(dim + 1);
  const float rate = learning_rate / (std::sqrt(row.scalars->moment2) + epsilon_);
  kernels_.axpy(dim, -rate, g, row.weights);
  row.scalars->bias -= rate * bias_gradient;
}

}  // namespace dslide
