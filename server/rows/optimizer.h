// The update of one parameter row from its gradient.
//
// Lazy: only rows that a batch touched are updated, each with its own step count.
//   Adam       Kingma & Ba, ICLR 2015, section 2, with its constants; bias correction by the row's
//              own count
//   AdaGrad    row-wise: one accumulator per row of the mean squared gradient element
//   SGD        w -= lr * g
// Weight decay is decoupled (Loshchilov & Hutter, ICLR 2019) and leaves biases alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/config/config.h"
#include "common/math/kernels.h"

namespace dslide {

// The scalars of a row. Checkpoints store them byte for byte.
struct RowScalars {
  float bias = 0;
  // Adam: the bias's first moment. A centroid: the length of its sum.
  float moment1 = 0;
  // Adam: the bias's second moment. AdaGrad: the row's accumulator. A centroid: the pass of its
  // sum.
  float moment2 = 0;
  uint32_t steps = 0;  // updates; a centroid: samples in its sum
};
static_assert(sizeof(RowScalars) == 16);

// A row's parameters in place; moment vectors are null where the optimiser keeps none. float, or
// uint16_t for bf16.
template <typename Weight, typename Moment>
struct RowOf {
  Weight* weights;  // [dim]
  Moment* moment1;  // [dim] or null
  Moment* moment2;  // [dim] or null
  RowScalars* scalars;
};
using RowView = RowOf<float, float>;

class Optimizer {
 public:
  static constexpr float kBeta1 = 0.9f;     // Adam: decay of the first moment
  static constexpr float kBeta2 = 0.999f;   // Adam: decay of the second moment
  static constexpr float kEpsilon = 1e-8f;  // Adam, AdaGrad: added to the denominator

  Optimizer(const TrainConfig& config, const Kernels& kernels);

  // Vectors of [dim] numbers per row beside the weights: 2 for Adam, else 0.
  static int MomentVectors(OptimizerKind kind) { return kind == OptimizerKind::kAdam ? 2 : 0; }

  struct Step {
    float learning_rate;
    const float* gradient;  // [dim]
    float bias_gradient;
    bool decay;  // false for rows that are biases
  };
  // `noise` seeds the stochastic rounding of bf16.
  template <typename Weight, typename Moment>
  void Apply(const Step& step, size_t dim, const RowOf<Weight, Moment>& row, uint32_t noise) const;

 private:
  // 1 - beta1^t and sqrt(1 - beta2^t) for a row's t-th step.
  struct Correction {
    double first;
    double second;
  };
  Correction CorrectionAt(uint32_t t) const;

  template <typename Weight, typename Moment>
  void Adam(const Step& step, size_t dim, const RowOf<Weight, Moment>& row, uint32_t noise) const;
  template <typename Weight, typename Moment>
  void AdaGrad(const Step& step, size_t dim, const RowOf<Weight, Moment>& row,
               uint32_t noise) const;

  const Kernels& kernels_;
  OptimizerKind kind_;
  float weight_decay_;
  std::vector<Correction> corrections_;  // [t] for the first steps; Adam only
};

}  // namespace dslide
