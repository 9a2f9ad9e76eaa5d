#include "common/run/dense_layers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "common/base/random.h"
#include "common/run/combine.h"
#include "common/run/slot_rows.h"

namespace dslide::dense_layers_test {
namespace {

ModelConfig ModelOf(uint32_t hidden, std::vector<uint32_t> dense) {
  ModelConfig model;
  model.features = 100;
  model.labels = 50;
  model.hidden = hidden;
  model.dense = std::move(dense);
  return model;
}

Matrix Normal(uint32_t rows, uint32_t cols, double size, Random* random) {
  Matrix matrix(rows, cols);
  for (float& x : matrix.data) x = static_cast<float>(size * random->Normal());
  return matrix;
}

TEST_CASE("dense layers: a unit's weights fill whole rows, then come the biases") {
  CHECK(DenseRowCount(ModelOf(8, {})) == 0);
  CHECK(InputRowCount(ModelOf(8, {})) == 101);
  // 8 -> 20: a row a unit, 3 rows of biases. 20 -> 5: three rows a unit, a row of biases.
  const ModelConfig model = ModelOf(8, {20, 5});
  const std::vector<DenseLayer> layers = DenseLayersOf(model);
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].unit_rows == 1);
  CHECK(layers[0].bias_row == 20);
  CHECK(layers[1].first_row == 23);
  CHECK(layers[1].unit_rows == 3);
  CHECK(layers[1].bias_row == 38);
  CHECK(DenseRowCount(model) == 39);
  CHECK(InputRowCount(model) == 140);
  CHECK(ParameterCount(model) == 8 * 101 + 20 * 9 + 5 * 21 + 50 * 6);
  const DenseRowStart first = StartOfDenseRow(model, 3), last = StartOfDenseRow(model, 25);
  CHECK(first.columns == 8);
  CHECK(first.deviation == doctest::Approx(0.05));
  CHECK(first.passed == 3);
  CHECK(first.passed_weight == doctest::Approx(std::sqrt(0.4)));  // 20 units of 8
  CHECK(StartOfDenseRow(model, 23).passed == 0);
  CHECK(StartOfDenseRow(model, 23).passed_weight == 1);
  CHECK(last.columns == 4);  // of 20
  CHECK(last.deviation == doctest::Approx(0.1 * std::sqrt(0.1)));
  CHECK(last.passed == DenseRowStart::kNone);
  CHECK(StartOfDenseRow(model, 8).passed == 0);  // unit 8 passes unit 0 on
  CHECK(StartOfDenseRow(model, 22).is_bias);
  CHECK(StartOfDenseRow(model, 38).is_bias);
  CHECK_FALSE(StartOfDenseRow(model, 23).is_bias);
}

// The sum of h_L times `slope`, whose gradients Backward() has to give: plain loops in double over
// parameters [R * H_1] and h_1 [B * H_1].
double Loss(const ModelConfig& model, const std::vector<double>& rows,
            const std::vector<double>& first, const Matrix& slope) {
  double sum = 0;
  const size_t width = model.hidden;
  for (size_t i = 0; i < slope.rows; ++i) {
    std::vector<double> h(first.begin() + static_cast<ptrdiff_t>(i * width),
                          first.begin() + static_cast<ptrdiff_t>((i + 1) * width));
    size_t begin = 0;
    for (const size_t out : model.dense) {
      const size_t unit = (h.size() + width - 1) / width * width;
      std::vector<double> next(out);
      for (size_t k = 0; k < out; ++k) {
        double a = rows[begin + out * unit + k];
        for (size_t j = 0; j < h.size(); ++j) a += rows[begin + k * unit + j] * h[j];
        next[k] = std::max(a, 0.0);
      }
      begin += out * unit + (out + width - 1) / width * width;
      h = next;
    }
    for (size_t k = 0; k < h.size(); ++k) sum += h[k] * double{slope.row(i)[k]};
  }
  return sum;
}

double Slope(std::vector<double>* x, size_t at, const std::function<double()>& loss) {
  constexpr double kStep = 1e-6;
  const double middle = (*x)[at];
  (*x)[at] = middle + kStep;
  const double above = loss();
  (*x)[at] = middle - kStep;
  const double below = loss();
  (*x)[at] = middle;
  return (above - below) / (2 * kStep);
}

TEST_CASE("dense layers: gradients are the slopes, of one to three layers and all kernels") {
  for (const std::vector<uint32_t>& dense :
       std::vector<std::vector<uint32_t>>{{6}, {4}, {13}, {9, 5}, {5, 17, 7}}) {
    for (const char* name : {"scalar", "avx2", "avx512"}) {
      const ReproducibleGemm* gemm = ReproducibleGemmByName(name);
      if (gemm == nullptr) continue;
      CAPTURE(name);
      CAPTURE(dense.front());
      const ModelConfig model = ModelOf(6, dense);
      Random random(3);
      const Matrix rows = Normal(DenseRowCount(model), 6, 0.6, &random);
      Matrix first = Normal(11, 6, 1, &random);
      for (float& h : first.data) h = std::max(h, 0.0f);
      const Matrix slope = Normal(11, dense.back(), 1, &random);
      const DenseWeights weights(model, rows, *gemm);
      const std::vector<Matrix> hidden = weights.Forward(first);
      const DenseWeights::Gradients back = weights.Backward(first, hidden, slope);
      std::vector<double> r(rows.data.begin(), rows.data.end());
      std::vector<double> f(first.data.begin(), first.data.end());
      const auto loss = [&] { return Loss(model, r, f, slope); };
      double forward = 0, largest = 0, worst = 0;
      for (size_t k = 0; k < slope.data.size(); ++k) {
        forward += double{hidden.back().data[k]} * double{slope.data[k]};
      }
      CHECK(forward == doctest::Approx(loss()).epsilon(1e-5));
      for (size_t k = 0; k < r.size(); ++k) {
        const double numeric = Slope(&r, k, loss);
        worst = std::max(worst, std::abs(numeric - double{back.rows.data[k]}));
        largest = std::max(largest, std::abs(numeric));
      }
      for (size_t k = 0; k < f.size(); ++k) {
        if (f[k] == 0) continue;  // at the corner of its relu
        worst = std::max(worst, std::abs(Slope(&f, k, loss) - double{back.first.data[k]}));
      }
      CHECK(largest > 0.5);
      CHECK(worst < 1e-4);
    }
  }
}

TEST_CASE("dense layers: the bits are the same, whatever the machine has") {
  const ModelConfig model = ModelOf(37, {300, 129});
  Random random(4);
  const Matrix rows = Normal(DenseRowCount(model), 37, 0.3, &random);
  Matrix first = Normal(23, 37, 1, &random);
  for (float& h : first.data) h = std::max(h, 0.0f);
  const Matrix slope = Normal(23, 129, 1e-3, &random);
  const DenseWeights scalar(model, rows, *ReproducibleGemmByName("scalar"));
  const std::vector<Matrix> hidden = scalar.Forward(first);
  const DenseWeights::Gradients back = scalar.Backward(first, hidden, slope);
  for (const char* name : {"avx2", "avx512"}) {
    const ReproducibleGemm* gemm = ReproducibleGemmByName(name);
    if (gemm == nullptr) continue;
    CAPTURE(name);
    const DenseWeights weights(model, rows, *gemm);
    CHECK(weights.Forward(first) == hidden);
    const DenseWeights::Gradients other = weights.Backward(first, hidden, slope);
    CHECK(other.rows == back.rows);
    CHECK(other.first == back.first);
  }
}

TEST_CASE("dense layers: rows that several have are put in order") {
  LayerRows a{{3, 9}, Matrix(2, 2)}, b{{1, 4}, Matrix(2, 2)}, none;
  std::iota(a.values.data.begin(), a.values.data.end(), 1.0f);
  std::iota(b.values.data.begin(), b.values.data.end(), 5.0f);
  const LayerRows merged = MergeRows({a, none, b});
  CHECK(merged.ids == std::vector<uint32_t>{1, 3, 4, 9});
  CHECK(merged.values.data == std::vector<float>{5, 6, 1, 2, 7, 8, 3, 4});
  CHECK(MergeRows({}).ids.empty());
}

}  // namespace
}  // namespace dslide::dense_layers_test
