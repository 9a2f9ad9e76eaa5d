#include "common/run/dense_layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/config/limits.h"

namespace dslide {
namespace {

static_assert(kMostDenseRows <= kMaxBatchSamples && kMostMessageBytes <= kMaxMessageBytes);

uint32_t RowsFor(uint32_t elements, uint32_t width) { return (elements + width - 1) / width; }

// No gradient where relu has cut off.
void Mask(const Matrix& hidden, Matrix* gradient) {
  DSLIDE_CHECK(hidden.data.size() == gradient->data.size());
  const float* h = hidden.data.data();
  float* g = gradient->data.data();
  for (size_t i = 0; i < gradient->data.size(); ++i) g[i] = h[i] > 0 ? g[i] : 0.0f;
}

}  // namespace

std::vector<DenseLayer> DenseLayersOf(const ModelConfig& model) {
  std::vector<DenseLayer> layers;
  uint32_t in = model.hidden, row = 0;
  for (const uint32_t out : model.dense) {
    DenseLayer layer{in, out, RowsFor(in, model.hidden), row, 0};
    layer.bias_row = row + out * layer.unit_rows;
    row = layer.EndRow(model.hidden);
    layers.push_back(layer);
    in = out;
  }
  return layers;
}

uint32_t DenseRowCount(const ModelConfig& model) {
  return static_cast<uint32_t>(RowsOfDenseLayers(model));
}

DenseRowStart StartOfDenseRow(const ModelConfig& model, uint32_t row) {
  for (const DenseLayer& layer : DenseLayersOf(model)) {
    if (row >= layer.EndRow(model.hidden)) continue;
    if (row >= layer.bias_row) return {};
    const uint32_t unit = (row - layer.first_row) / layer.unit_rows;
    const uint32_t piece = (row - layer.first_row) % layer.unit_rows;
    const uint32_t from = unit % layer.in;
    DenseRowStart start;
    start.deviation = kDenseNoise * std::sqrt(2.0f / static_cast<float>(layer.in));
    start.columns = std::min(model.hidden, layer.in - piece * model.hidden);
    if (from / model.hidden == piece) start.passed = from % model.hidden;
    start.passed_weight =
        std::sqrt(std::min(1.0f, static_cast<float>(layer.in) / static_cast<float>(layer.out)));
    start.is_bias = false;
    return start;
  }
  DSLIDE_CHECK(false);
  return {};
}

DenseWeights::DenseWeights(const ModelConfig& model, Matrix rows, const ReproducibleGemm& gemm)
    : layers_(DenseLayersOf(model)), rows_(std::move(rows)), gemm_(gemm) {
  DSLIDE_CHECK(!layers_.empty());
  DSLIDE_CHECK(rows_.rows == DenseRowCount(model) && rows_.cols == model.hidden);
}

std::vector<Matrix> DenseWeights::Forward(const Matrix& first) const {
  std::vector<Matrix> hidden;
  hidden.reserve(layers_.size());
  const Matrix* in = &first;
  for (const DenseLayer& layer : layers_) {
    DSLIDE_CHECK(in->cols == layer.in);
    Matrix out(in->rows, layer.out);
    const float* bias = rows_.row(layer.bias_row);
    for (uint32_t i = 0; i < out.rows; ++i) std::copy_n(bias, layer.out, out.row(i));
    gemm_.nt(out.rows, layer.out, layer.in, in->data.data(), layer.in, Weights(layer),
             Stride(layer), out.data.data(), layer.out, true);
    // A product with a factor that is chosen: NaN stays.
    for (float& h : out.data) h *= h <= 0 ? 0.0f : 1.0f;
    hidden.push_back(std::move(out));
    in = &hidden.back();
  }
  return hidden;
}

Matrix DenseWeights::Last(const Matrix& first) const { return std::move(Forward(first).back()); }

DenseWeights::Gradients DenseWeights::Backward(const Matrix& first,
                                               const std::vector<Matrix>& hidden,
                                               Matrix last) const {
  DSLIDE_CHECK(hidden.size() == layers_.size());
  Gradients gradients;
  gradients.rows = Matrix(rows_.rows, rows_.cols);
  Matrix gradient = std::move(last);
  for (size_t l = layers_.size(); l-- > 0;) {
    const DenseLayer& layer = layers_[l];
    const Matrix& in = l == 0 ? first : hidden[l - 1];
    const size_t samples = in.rows;
    Mask(hidden[l], &gradient);
    gemm_.tn(layer.out, layer.in, samples, gradient.data.data(), layer.out, in.data.data(),
             layer.in, gradients.rows.row(layer.first_row), Stride(layer), false);
    float* bias = gradients.rows.row(layer.bias_row);
    for (uint32_t i = 0; i < in.rows; ++i) {
      const float* g = gradient.row(i);
      for (uint32_t k = 0; k < layer.out; ++k) bias[k] += g[k];
    }
    Matrix below(in.rows, layer.in);
    gemm_.nn(samples, layer.in, layer.out, gradient.data.data(), layer.out, Weights(layer),
             Stride(layer), below.data.data(), layer.in, false);
    gradient = std::move(below);
  }
  gradients.first = std::move(gradient);
  return gradients;
}

}  // namespace dslide
