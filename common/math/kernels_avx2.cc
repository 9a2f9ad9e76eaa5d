// The kernels on 8 lanes. Compiled with -mavx2 -mfma -mbmi2; runs only where kernels.cc finds them.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace dslide {
namespace {

constexpr size_t kLanes = 8;
using Vec = float __attribute__((vector_size(32)));
using IntVec = int32_t __attribute__((vector_size(32)));
using HalfVec = uint16_t __attribute__((vector_size(16)));

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

// Halves as lanes, bytes as lanes, and the lowest byte of each lane. (Of __builtin_convertvector
// GCC 12 makes a chain of insertions.)
IntVec Widen(HalfVec x) {
  return reinterpret_cast<IntVec>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(x)));
}
IntVec LoadBytes(const uint8_t* x) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return reinterpret_cast<IntVec>(_mm256_cvtepu8_epi32(bytes));
}
IntVec LoadBytes(const int8_t* x) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return reinterpret_cast<IntVec>(_mm256_cvtepi8_epi32(bytes));
}
void StoreBytes(IntVec lanes, void* x) {
  const __m256i lowest =
      _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                       0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i bytes = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(lanes), lowest);
  _mm_storel_epi64(
      static_cast<__m128i*>(x),
      _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
}

// Byte i is 0xff where bit i is set.
uint64_t ByteMask(uint32_t bits) { return _pdep_u64(bits, 0x0101010101010101u) * 0xff; }
constexpr uint64_t kByteNumbers = 0x0706050403020100;  // byte i is i

IntVec Permute(IntVec x, uint64_t lanes) {
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<int64_t>(lanes));
  return reinterpret_cast<IntVec>(
      _mm256_permutevar8x32_epi32(reinterpret_cast<__m256i>(x), _mm256_cvtepu8_epi32(bytes)));
}

// The lanes whose bit is set, side by side from lane 0 on; what is in the rest does not matter. And
// the inverse, where the rest is 0.
IntVec Compress(uint32_t bits, IntVec x) {
  return Permute(x, _pext_u64(kByteNumbers, ByteMask(bits)));
}
IntVec Expand(uint32_t bits, IntVec x) {
  const uint64_t set = ByteMask(bits);
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<int64_t>(set));
  const auto mask = reinterpret_cast<IntVec>(_mm256_cvtepi8_epi32(bytes));
  return Permute(x, _pdep_u64(kByteNumbers, set)) & mask;
}

}  // namespace
}  // namespace dslide

#include "common/math/kernels_inl.h"

namespace dslide {

constinit const Kernels kAvx2Kernels =
    MakeKernels("avx2", GemmNt<FloatKernel>, GemmNn<FloatKernel>, GemmTn<FloatKernel>);

}  // namespace dslide
