// The products for the baseline. Compiled with -ffp-contract=off.
#include <algorithm>
#include <cstring>

#include "common/math/reproducible/gemm_internal.h"

namespace dslide {
namespace {

// Four lanes are in every CPU's registers.
constexpr size_t kLanes = 4;
using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));

// A panel of b [kDepth x kWidth] stays in the L1 cache.
constexpr size_t kDepth = 256;
constexpr size_t kVectors = 4;
constexpr size_t kWidth = kVectors * kLanes;

// `a(i, p)` and `b(p, j)` are the elements of the factors.
template <typename A, typename B>
void Multiply(size_t m, size_t n, size_t k, const A& a, const B& b, float* c, size_t ldc,
              bool accumulate) {
  if (!accumulate) {
    for (size_t i = 0; i < m; ++i) std::fill_n(c + i * ldc, n, 0.0f);
  }
  for (size_t begin = 0; begin < k; begin += kDepth) {
    const size_t depth = std::min(kDepth, k - begin);
    for (size_t j = 0; j < n; j += kWidth) {
      const size_t width = std::min(kWidth, n - j);
      Vec panel[kDepth * kVectors];
      for (size_t p = 0; p < depth; ++p) {
        for (size_t l = 0; l < kWidth; ++l) {
          panel[p * kVectors + l / kLanes][l % kLanes] = l < width ? b(begin + p, j + l) : 0.0f;
        }
      }
      for (size_t i = 0; i < m; ++i) {
        Vec sums[kVectors] = {};
        std::memcpy(sums, c + i * ldc + j, width * sizeof(float));
        for (size_t p = 0; p < depth; ++p) {
          const Vec factor = a(i, begin + p) - Vec{};  // with the sign of 0
          for (size_t v = 0; v < kVectors; ++v) sums[v] += factor * panel[p * kVectors + v];
        }
        std::memcpy(c + i * ldc + j, sums, width * sizeof(float));
      }
    }
  }
}

void Nt(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
        float* c, size_t ldc, bool accumulate) {
  Multiply(
      m, n, k, [=](size_t i, size_t p) { return a[i * lda + p]; },
      [=](size_t p, size_t j) { return b[j * ldb + p]; }, c, ldc, accumulate);
}

void Nn(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
        float* c, size_t ldc, bool accumulate) {
  Multiply(
      m, n, k, [=](size_t i, size_t p) { return a[i * lda + p]; },
      [=](size_t p, size_t j) { return b[p * ldb + j]; }, c, ldc, accumulate);
}

void Tn(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
        float* c, size_t ldc, bool accumulate) {
  Multiply(
      m, n, k, [=](size_t i, size_t p) { return a[p * lda + i]; },
      [=](size_t p, size_t j) { return b[p * ldb + j]; }, c, ldc, accumulate);
}

}  // namespace

constinit const ReproducibleGemm kScalarReproducibleGemm = {"scalar", Nt, Nn, Tn};

}  // namespace dslide
