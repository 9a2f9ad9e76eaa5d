#include <bit>

#include "common/math/bf16_gemm_internal.h"

namespace dslide {
namespace {

float ToFloat(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }

// Element (i, j) is at data[i*row_stride + j*col_stride].
struct Matrix {
  const uint16_t* data;
  size_t row_stride;
  size_t col_stride;

  float operator()(size_t i, size_t j) const {
    return ToFloat(data[i * row_stride + j * col_stride]);
  }
};

void Multiply(size_t m, size_t n, size_t k, const Matrix& a, const Matrix& b, float* c, size_t ldc,
              bool accumulate) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      float sum = 0.0f;
      for (size_t p = 0; p < k; ++p) sum += a(i, p) * b(p, j);
      c[i * ldc + j] = accumulate ? c[i * ldc + j] + sum : sum;
    }
  }
}

void Nt(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b, size_t ldb,
        float* c, size_t ldc, bool accumulate) {
  Multiply(m, n, k, {a, lda, 1}, {b, 1, ldb}, c, ldc, accumulate);
}

void Nn(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b, size_t ldb,
        float* c, size_t ldc, bool accumulate) {
  Multiply(m, n, k, {a, lda, 1}, {b, ldb, 1}, c, ldc, accumulate);
}

void Tn(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b, size_t ldb,
        float* c, size_t ldc, bool accumulate) {
  Multiply(m, n, k, {a, 1, lda}, {b, ldb, 1}, c, ldc, accumulate);
}

}  // namespace

constinit const Bf16Gemm kScalarBf16Gemm = {.name = "scalar", .nt = Nt, .nn = Nn, .tn = Tn};

}  // namespace dslide
