// The products with AVX512-BF16's vdpbf16ps: each lane adds the products of a pair of a and a pair
// of b. Runs only where bf16_gemm.cc finds the instruction.
#include <immintrin.h>

#include "common/math/bf16_gemm_inl.h"
#include "common/math/bf16_gemm_internal.h"

namespace dslide {
namespace {

// 12 x 32 tile: 24 of the 32 registers are sums, two hold b, the rest a. Panel a is [pairs x 12],
// panel b [pairs x 32].
struct Avx512Kernel {
  static constexpr size_t kTileRows = 12;
  static constexpr size_t kTileCols = 2 * kLanes;
  static constexpr size_t kUnitStep = 1;

  static void PackA(size_t size, size_t depth, size_t pairs, const Operand& x, float* out) {
    Pack<kTileRows, true>(size, size, depth, pairs, x, out);
  }

  static void PackB(size_t size, size_t depth, size_t pairs, const Operand& x, float* out) {
    Pack<kTileCols, true>(size, size, depth, pairs, x, out);
  }

  template <size_t kRows>
  static void MultiplyRows(size_t pairs, const float* a, const float* b, float* c, size_t ldc,
                           bool add) {
    __m512 sums[kRows][2] = {};
    for (size_t p = 0; p < pairs; ++p) {
      const auto b0 = reinterpret_cast<__m512bh>(Load(b + p * kTileCols));
      const auto b1 = reinterpret_cast<__m512bh>(Load(b + p * kTileCols + kLanes));
#pragma GCC unroll 16
      for (size_t i = 0; i < kRows; ++i) {
        const auto ai = reinterpret_cast<__m512bh>(_mm512_set1_ps(a[p * kTileRows + i]));
        sums[i][0] = _mm512_dpbf16_ps(sums[i][0], ai, b0);
        sums[i][1] = _mm512_dpbf16_ps(sums[i][1], ai, b1);
      }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i) {
      float* row = c + i * ldc;
      Store(add ? Load(row) + sums[i][0] : sums[i][0], row);
      Store(add ? Load(row + kLanes) + sums[i][1] : sums[i][1], row + kLanes);
    }
  }

  static void Multiply(size_t rows, size_t pairs, const float* a, const float* b, float* c,
                       size_t ldc, bool add) {
    if (rows <= 4) {
      MultiplyRows<4>(pairs, a, b, c, ldc, add);
    } else if (rows <= 8) {
      MultiplyRows<8>(pairs, a, b, c, ldc, add);
    } else {
      MultiplyRows<kTileRows>(pairs, a, b, c, ldc, add);
    }
  }
};

}  // namespace

constinit const Bf16Gemm kAvx512Bf16Gemm = MakeBf16Gemm<Avx512Kernel>("avx512bf16");

}  // namespace dslide
