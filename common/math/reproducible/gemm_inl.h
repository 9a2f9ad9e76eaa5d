// The products of gemm.h over the including file's Vec, kLanes, kRowsPerTile and
// LoadFirst. Compiled with -ffp-contract=off.
#pragma once

#include "common/math/gemm_inl.h"
#include "common/math/reproducible/gemm_internal.h"

namespace dslide {
namespace {

// The tile's sums begin with what c has, so that blocks along the depth go on with one sum.
struct OrderedKernel : FloatKernel {
  template <size_t kRows>
  static void MultiplyRows(size_t depth, const float* a, const float* b, float* c, size_t ldc,
                           bool add) {
    Vec sums[kRows][2] = {};
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i) {
      sums[i][0] = add ? Load(c + i * ldc) : Vec{};
      sums[i][1] = add ? Load(c + i * ldc + kLanes) : Vec{};
    }
    for (size_t p = 0; p < depth; ++p) {
      const Vec b0 = Load(b + p * kTileCols);
      const Vec b1 = Load(b + p * kTileCols + kLanes);
#pragma GCC unroll 16
      for (size_t i = 0; i < kRows; ++i) {
        const Vec ai = a[p * kTileRows + i] - Vec{};  // with the sign of 0
        sums[i][0] += ai * b0;
        sums[i][1] += ai * b1;
      }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i) {
      Store(sums[i][0], c + i * ldc);
      Store(sums[i][1], c + i * ldc + kLanes);
    }
  }

  static void Multiply(size_t rows, size_t depth, const float* a, const float* b, float* c,
                       size_t ldc, bool add) {
    MultiplyTile<OrderedKernel>(rows, depth, a, b, c, ldc, add);
  }
};

constexpr ReproducibleGemm MakeReproducibleGemm(const char* name) {
  return {name, GemmNt<OrderedKernel>, GemmNn<OrderedKernel>, GemmTn<OrderedKernel>};
}

}  // namespace
}  // namespace dslide
