// The matrix products of all kernels, against loops in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "tests/common/math/kernel_arrays.h"

namespace dslide::gemm_test {
namespace {

enum class Layout { kNt, kNn, kTn };

struct GemmShape {
  size_t m;
  size_t n;
  size_t k;
};

// A matrix of rows x cols floats whose rows are `stride` apart.
struct StridedMatrix {
  StridedMatrix(size_t rows, size_t cols, size_t padding, size_t offset, Random* random)
      : stride(cols + padding), values(rows * (cols + padding), offset, random, -1, 1) {}

  size_t stride;
  Array values;
};

auto GemmOf(const Kernels& kernels, Layout layout) {
  if (layout == Layout::kNt) return kernels.gemm_nt;
  return layout == Layout::kNn ? kernels.gemm_nn : kernels.gemm_tn;
}

void CheckGemm(const Kernels& kernels, Layout layout, const GemmShape& shape, size_t padding,
               bool accumulate, Random* random) {
  const auto [m, n, k] = shape;
  CAPTURE(kernels.name);
  CAPTURE(static_cast<int>(layout));
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(padding);
  const bool a_transposed = layout == Layout::kTn;
  const bool b_transposed = layout == Layout::kNt;
  StridedMatrix a(a_transposed ? k : m, a_transposed ? m : k, padding, padding % 4, random);
  StridedMatrix b(b_transposed ? n : k, b_transposed ? k : n, 2 * padding, padding % 3, random);
  StridedMatrix c(m, n, 3 * padding, padding % 5, random);
  // What c holds is of no matter when it is overwritten.
  if (!accumulate && m * n > 0) c.values.data()[0] = kNan;
  const StridedMatrix before = c;
  GemmOf(kernels, layout)(m, n, k, a.values.data(), a.stride, b.values.data(), b.stride,
                          c.values.data(), c.stride, accumulate);
  CHECK(c.values.GuardsIntact());
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double sum = accumulate ? double{before.values[i * c.stride + j]} : 0.0;
      for (size_t p = 0; p < k; ++p) {
        const float x = a.values[a_transposed ? p * a.stride + i : i * a.stride + p];
        const float y = b.values[b_transposed ? j * b.stride + p : p * b.stride + j];
        sum += double{x} * double{y};
      }
      REQUIRE(Near(c.values[i * c.stride + j], sum, 1e-6 * (1 + static_cast<double>(k))));
    }
    for (size_t j = n; j < c.stride; ++j) {
      REQUIRE(c.values[i * c.stride + j] == before.values[i * c.stride + j]);
    }
  }
}

void CheckAllGemms(const GemmShape& shape, size_t padding, Random* random) {
  for (const Kernels* kernels : AvailableKernels()) {
    for (Layout layout : {Layout::kNt, Layout::kNn, Layout::kTn}) {
      for (bool accumulate : {false, true}) {
        CheckGemm(*kernels, layout, shape, padding, accumulate, random);
      }
    }
  }
}

TEST_CASE("gemm on all small shapes' edges") {
  Random random(8);
  for (size_t size = 0; size <= 70; ++size) {
    CheckAllGemms({size, 7, 5}, size % 3, &random);
    CheckAllGemms({13, size, 9}, size % 4, &random);
    CheckAllGemms({6, 17, size}, size % 5, &random);
  }
}

TEST_CASE("gemm on random shapes and strides") {
  Random random(9);
  for (int round = 0; round < 60; ++round) {
    const GemmShape shape = {random.Below(90), random.Below(90), random.Below(90)};
    CheckAllGemms(shape, random.Below(20), &random);
  }
}

TEST_CASE("gemm across the cache blocks") {
  Random random(10);
  for (const GemmShape& shape :
       {GemmShape{300, 70, 20}, GemmShape{20, 700, 30}, GemmShape{13, 40, 800},
        GemmShape{270, 300, 260}, GemmShape{540, 33, 257}, GemmShape{1, 1, 1025}}) {
    CheckAllGemms(shape, 3, &random);
  }
}

TEST_CASE("a row of a product does not depend on the rows computed with it") {
  constexpr size_t kRows = 40;
  constexpr size_t kCols = 50;
  constexpr size_t kDepth = 300;
  Random random(11);
  Array a(kRows * kDepth, 0, &random, -1, 1);
  Array b(kCols * kDepth, 0, &random, -1, 1);
  for (const Kernels* kernels : AvailableKernels()) {
    CAPTURE(kernels->name);
    std::vector<float> all(kRows * kCols);
    kernels->gemm_nt(kRows, kCols, kDepth, a.data(), kDepth, b.data(), kDepth, all.data(), kCols,
                     false);
    for (size_t rows = 1; rows < kRows; ++rows) {
      std::vector<float> some(rows * kCols);
      kernels->gemm_nt(rows, kCols, kDepth, a.data(), kDepth, b.data(), kDepth, some.data(), kCols,
                       false);
      CHECK(std::equal(some.begin(), some.end(), all.begin()));
    }
  }
}

}  // namespace
}  // namespace dslide::gemm_test
