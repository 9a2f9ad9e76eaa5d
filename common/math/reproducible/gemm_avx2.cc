// The products on 8 lanes. Compiled with -mavx2 -ffp-contract=off; runs only where kernels.cc finds
// AVX2. Nothing of the standard library is instantiated here (kernels_internal.h says why).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace dslide {
namespace {

constexpr size_t kLanes = 8;
using Vec = float __attribute__((vector_size(32)));
constexpr size_t kRowsPerTile = 6;

// The first n < kLanes lanes; those beyond read as 0 and are not touched in memory.
Vec LoadFirst(size_t n, const float* x) {
  using Lanes = int32_t __attribute__((vector_size(32)));
  const Lanes lane = {0, 1, 2, 3, 4, 5, 6, 7};
  const Lanes first = lane < static_cast<int32_t>(n);
  return _mm256_maskload_ps(x, reinterpret_cast<__m256i>(first));
}

}  // namespace
}  // namespace dslide

#include "common/math/reproducible/gemm_inl.h"

namespace dslide {

constinit const ReproducibleGemm kAvx2ReproducibleGemm = MakeReproducibleGemm("avx2");

}  // namespace dslide
