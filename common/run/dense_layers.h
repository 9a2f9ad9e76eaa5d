// The dense layers between the first hidden layer and the output neurons, where model.hidden is a
// list H_1, ..., H_L:
//
//   h_1 = relu(sum_f x_f E_f + b_1)       rows E_f on the servers
//   h_l = relu(W_l h_{l-1} + b_l)         l = 2 ... L, computed by whoever has h_1
//   z_j = w_j . h_L + b_j                 on the servers
//
// Their parameters are rows of the input layer, H_1 wide, behind the bias of the first layer: the
// ids D + 1 ... D + R. So they belong to slots, move, are stored and updated as input rows. Layer
// after layer, and in a layer unit after unit: the weights of unit k, W_l[k, 0 ... H_{l-1}), take
// ceil(H_{l-1} / H_1) rows; behind the units b_l takes ceil(H_l / H_1) rows. What a last row has
// left over is 0 and stays 0.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/config/config.h"
#include "common/math/reproducible/gemm.h"
#include "common/wire/messages.h"

namespace dslide {

// Where a layer's parameters are among the R rows.
struct DenseLayer {
  uint32_t in;         // H_{l-1}
  uint32_t out;        // H_l
  uint32_t unit_rows;  // rows of a unit
  uint32_t first_row;  // of unit 0
  uint32_t bias_row;   // the first of the bias
  uint32_t EndRow(uint32_t width) const { return bias_row + (out + width - 1) / width; }
};

// All of them; empty if model.hidden is one number.
std::vector<DenseLayer> DenseLayersOf(const ModelConfig& model);

// R.
uint32_t DenseRowCount(const ModelConfig& model);
// D + 1. REQUIRES D <= kMostFeatures, as the configuration does.
inline uint32_t FirstDenseId(const ModelConfig& model) { return model.features + 1; }

// What a row is at the start. Unit k passes on unit k mod H_{l-1} of the layer below: that weight
// begins with 1, so that the network begins as the one without the layer (compare Chen et al.:
// "Net2Net", ICLR 2016); in a layer that is wider than the one below with sqrt(H_{l-1} / H_l), so
// that h_l is about as long as h_{l-1}. Besides, the first `columns` weights are drawn with a
// standard deviation of kDenseNoise sqrt(2 / H_{l-1}). Biases are 0.
constexpr float kDenseNoise = 0.1f;
struct DenseRowStart {
  static constexpr uint32_t kNone = 0xffffffffu;

  float deviation = 0;
  uint32_t columns = 0;
  uint32_t passed = kNone;  // the column that passes a unit on
  float passed_weight = 0;
  bool is_bias = true;
};
// REQUIRES row < DenseRowCount().
DenseRowStart StartOfDenseRow(const ModelConfig& model, uint32_t row);

// The parameters, and the products with them. Immutable; any number of threads may use it. Products
// are in fp32, by one thread. Their bits are the same on all machines
// (common/math/reproducible/gemm.h), because audits compare what two workers make of a batch.
class DenseWeights {
 public:
  // `rows`: [R x H_1]. REQUIRES R > 0.
  DenseWeights(const ModelConfig& model, Matrix rows,
               const ReproducibleGemm& gemm = BestReproducibleGemm());

  // h_2 ... h_L of `first`, h_1 [B x H_1].
  std::vector<Matrix> Forward(const Matrix& first) const;
  // h_L.
  Matrix Last(const Matrix& first) const;

  struct Gradients {
    Matrix rows;   // [R x H_1] of the parameters
    Matrix first;  // [B x H_1] dL/dh_1
  };
  // `hidden`: of Forward(). `last`: dL/dh_L [B x H_L]; what it has where h_L is 0 does not count.
  Gradients Backward(const Matrix& first, const std::vector<Matrix>& hidden, Matrix last) const;

 private:
  const float* Weights(const DenseLayer& layer) const { return rows_.row(layer.first_row); }
  size_t Stride(const DenseLayer& layer) const { return size_t{layer.unit_rows} * rows_.cols; }

  std::vector<DenseLayer> layers_;
  Matrix rows_;
  const ReproducibleGemm& gemm_;
};

}  // namespace dslide
