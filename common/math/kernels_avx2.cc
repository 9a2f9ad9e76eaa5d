// The kernels on 8 lanes. Compiled with -mavx2 -mfma; runs only where kernels.cc finds both.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace dslide {
namespace {

constexpr size_t kLanes = 8;
using Vec = float __attribute__((vector_size(32)));
using IntVec = int32_t __attribute__((vector_size(32)));

// 6 x 16 tile: 12 of the 16 registers are sums, two hold b, one a.
constexpr size_t kRowsPerTile = 6;

Vec EstimateReciprocal(Vec x) { return _mm256_rcp_ps(x); }
Vec EstimateReciprocalSqrt(Vec x) { return _mm256_rsqrt_ps(x); }

// Bit i: lane i is negative.
uint32_t SignBits(IntVec x) {
  return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(x)));
}

IntVec FirstLanes(size_t n) {
  const IntVec lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return lane < static_cast<int32_t>(n);
}

// The first n < kLanes lanes; those beyond read as 0 and are not touched in memory.
Vec LoadFirst(size_t n, const float* x) {
  return _mm256_maskload_ps(x, reinterpret_cast<__m256i>(FirstLanes(n)));
}

void StoreFirst(size_t n, Vec value, float* x) {
  _mm256_maskstore_ps(x, reinterpret_cast<__m256i>(FirstLanes(n)), value);
}

}  // namespace
}  // namespace dslide

#include "common/math/kernels_inl.h"

namespace dslide {

constinit const Kernels kAvx2Kernels =
    MakeKernels("avx2", GemmNt<FloatKernel>, GemmNn<FloatKernel>, GemmTn<FloatKernel>);

}  // namespace dslide
