// The products on 16 lanes. Compiled with -mavx512{f,bw,dq,vl} -ffp-contract=off; runs only where
// kernels.cc finds them. Nothing of the standard library is instantiated here (kernels_internal.h
// says why).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace dslide {
namespace {

constexpr size_t kLanes = 16;
using Vec = float __attribute__((vector_size(64)));
constexpr size_t kRowsPerTile = 12;

// The first n < kLanes lanes; those beyond read as 0 and are not touched in memory.
Vec LoadFirst(size_t n, const float* x) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), x);
}

}  // namespace
}  // namespace dslide

#include "common/math/reproducible/gemm_inl.h"

namespace dslide {

constinit const ReproducibleGemm kAvx512ReproducibleGemm = MakeReproducibleGemm("avx512");

}  // namespace dslide
