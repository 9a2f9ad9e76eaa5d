// Packing of bfloat16 operands, for the Kernels of the including file (gemm_blocks_inl.h).
//
// A unit along the depth is a pair: elements 2p and 2p+1 of a row of a (or a column of b), 32
// bits that the packed panels carry in a float. An odd depth's last pair is filled up with 0.
#pragma once

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "common/math/bf16_gemm.h"
#include "common/math/kernels_internal.h"

namespace dslide {
namespace {

constexpr size_t kLanes = 16;
using Vec = float __attribute__((vector_size(64)));
using PairVec = uint32_t __attribute__((vector_size(64)));
using HalfVec = uint16_t __attribute__((vector_size(32)));

using Element = uint16_t;
constexpr size_t kElementsPerUnit = 2;
constexpr size_t kDepth = 512;
constexpr size_t kBlockRows = 288;
constexpr size_t kBlockCols = 256;
constexpr size_t kSlack = kLanes;

}  // namespace
}  // namespace dslide

#include "common/math/gemm_blocks_inl.h"
#include "common/math/vector_inl.h"

namespace dslide {
namespace {

// The first n elements at x, as many as fit; those beyond read as 0 and are not touched in memory.
inline Vec LoadPairs(size_t n, const uint16_t* x) {
#if defined(__AVX512BW__)
  const uint64_t mask = (uint64_t{1} << Min(n, 2 * kLanes)) - 1;
  return reinterpret_cast<Vec>(_mm512_maskz_loadu_epi16(static_cast<__mmask32>(mask), x));
#else
  Vec pairs = {};
  __builtin_memcpy(&pairs, x, Min(n, 2 * kLanes) * sizeof(uint16_t));
  return pairs;
#endif
}

inline HalfVec LoadHalf(size_t n, const uint16_t* x) {
#if defined(__AVX512BW__)
  const uint32_t mask = (uint32_t{1} << Min(n, kLanes)) - 1;
  return reinterpret_cast<HalfVec>(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), x));
#else
  HalfVec half = {};
  __builtin_memcpy(&half, x, Min(n, kLanes) * sizeof(uint16_t));
  return half;
#endif
}

// Lane i holds the pair (even[i], odd[i]).
inline Vec Interleave(HalfVec even, HalfVec odd) {
  const PairVec low = __builtin_convertvector(even, PairVec);
  const PairVec high = __builtin_convertvector(odd, PairVec);
  return reinterpret_cast<Vec>(low | (high << 16));
}

// The first kLanes x kLanes pairs of the `width` x `depth` elements at x, 0 beyond them:
// block[p] lane i, or block[i] lane p, is pair p of row or column i.
template <bool kPairMajor>
inline void LoadBlock(size_t width, size_t depth, const Operand& x, Vec (&block)[kLanes]) {
  if (x.along_depth) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kLanes; ++i) {
      block[i] = i < width ? LoadPairs(depth, x.data + i * x.stride) : Vec{};
    }
  } else {
#pragma GCC unroll 16
    for (size_t i = 0; i < kLanes; ++i) {
      const uint16_t* row = x.data + 2 * i * x.stride;
      const HalfVec even = 2 * i < depth ? LoadHalf(width, row) : HalfVec{};
      const HalfVec odd = 2 * i + 1 < depth ? LoadHalf(width, row + x.stride) : HalfVec{};
      block[i] = Interleave(even, odd);
    }
  }
  if (x.along_depth == kPairMajor) Transpose(block);
}

// Packs `size` rows or columns, padded with zeros to `padded`, into panels of kWidth of them, each
// [pairs x kWidth]. Where not kPairMajor, each 16 x 16 pairs of a panel are transposed.
template <size_t kWidth, bool kPairMajor>
void Pack(size_t size, size_t padded, size_t depth, size_t pairs, const Operand& x, float* out) {
  for (size_t panel = 0; panel < padded; panel += kWidth) {
    for (size_t i = panel; i < panel + kWidth; i += kLanes) {
      const size_t width = i < size ? Min(Min(kWidth, kLanes), size - i) : 0;
      float* to = out + panel * pairs + (i - panel);
      for (size_t p = 0; p < pairs; p += kLanes) {
        Vec block[kLanes];
        LoadBlock<kPairMajor>(width, depth - 2 * p, x.At(i, 2 * p), block);
        const size_t count = Min(kLanes, pairs - p);
        for (size_t q = 0; q < count; ++q) Store(block[q], to + (p + q) * kWidth);
      }
    }
  }
}

template <class Kernel>
constexpr Bf16Gemm MakeBf16Gemm(const char* name) {
  return {.name = name, .nt = GemmNt<Kernel>, .nn = GemmNn<Kernel>, .tn = GemmTn<Kernel>};
}

}  // namespace
}  // namespace dslide
