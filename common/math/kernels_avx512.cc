// The kernels on 16 lanes. Compiled with -mavx512{f,bw,dq,vl} -mfma -mprefer-vector-width=512; runs
// only where kernels.cc finds them.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace dslide {
namespace {

constexpr size_t kLanes = 16;
using Vec = float __attribute__((vector_size(64)));
using IntVec = int32_t __attribute__((vector_size(64)));
using HalfVec = uint16_t __attribute__((vector_size(32)));

// 12 x 32 tile: 24 of the 32 registers are sums, two hold b, the rest a.
constexpr size_t kRowsPerTile = 12;

__mmask16 FirstLanes(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }

// Masked forms, because GCC 12 warns of an uninitialised value in the unmasked ones.
Vec EstimateReciprocal(Vec x) { return _mm512_maskz_rcp14_ps(FirstLanes(kLanes), x); }
Vec EstimateReciprocalSqrt(Vec x) { return _mm512_maskz_rsqrt14_ps(FirstLanes(kLanes), x); }

// Bit i: lane i is negative.
uint32_t SignBits(IntVec x) { return _mm512_movepi32_mask(reinterpret_cast<__m512i>(x)); }

// The first n < kLanes lanes; those beyond read as 0 and are not touched in memory.
Vec LoadFirst(size_t n, const float* x) { return _mm512_maskz_loadu_ps(FirstLanes(n), x); }

void StoreFirst(size_t n, Vec value, float* x) { _mm512_mask_storeu_ps(x, FirstLanes(n), value); }

// Halves as lanes, bytes as lanes, and the lowest byte of each lane. (Of __builtin_convertvector
// GCC 12 makes a chain of insertions.)
IntVec Widen(HalfVec x) {
  return reinterpret_cast<IntVec>(
      _mm512_maskz_cvtepu16_epi32(FirstLanes(kLanes), reinterpret_cast<__m256i>(x)));
}
IntVec LoadBytes(const uint8_t* x) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return reinterpret_cast<IntVec>(_mm512_maskz_cvtepu8_epi32(FirstLanes(kLanes), bytes));
}
IntVec LoadBytes(const int8_t* x) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return reinterpret_cast<IntVec>(_mm512_maskz_cvtepi8_epi32(FirstLanes(kLanes), bytes));
}
void StoreBytes(IntVec lanes, void* x) {
  _mm_storeu_si128(
      static_cast<__m128i*>(x),
      _mm512_maskz_cvtepi32_epi8(FirstLanes(kLanes), reinterpret_cast<__m512i>(lanes)));
}

// The lanes whose bit is set, side by side from lane 0 on; the rest is 0. And the inverse.
IntVec Compress(uint32_t bits, IntVec x) {
  return reinterpret_cast<IntVec>(
      _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), reinterpret_cast<__m512i>(x)));
}
IntVec Expand(uint32_t bits, IntVec x) {
  return reinterpret_cast<IntVec>(
      _mm512_maskz_expand_epi32(static_cast<__mmask16>(bits), reinterpret_cast<__m512i>(x)));
}

}  // namespace
}  // namespace dslide

#include "common/math/kernels_inl.h"

namespace dslide {

constinit const Kernels kAvx512Kernels =
    MakeKernels("avx512", GemmNt<FloatKernel>, GemmNn<FloatKernel>, GemmTn<FloatKernel>);

}  // namespace dslide
