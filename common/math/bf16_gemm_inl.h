// Packing and blocking of bfloat16 products, as in gemm_inl.h, for a Kernel of the including file.
//
// The unit along the depth is a pair: elements 2p and 2p+1 of a row of a (or a column of b), 32
// bits that the packed panels carry in a float. An odd depth's last pair is filled up with 0.
//
// A Kernel lives for one product and has
//   kTileRows, kTileCols         the size of c that one Multiply computes
//   kPairStep                    the number of pairs in a panel is a multiple of it
//   PackA(size, depth, x, out)   packs `size` rows into panels of kTileRows rows, the last one
//                                padded; `out` has room for kSlack floats more
//   PackB(size, depth, x, out)   the same for columns
//   Multiply(rows, pairs, a, b, c, ldc, add)   c[kTileRows x kTileCols] (+)= panel a * panel b, of
//                                which the caller uses the first `rows` rows
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

}  // namespace
}  // namespace dslide

#include "common/math/vector_inl.h"

namespace dslide {
namespace {

// Cache blocking; see gemm_inl.h. A pair takes a float's room.
constexpr size_t kDepth = 512;
constexpr size_t kBlockRows = 288;
constexpr size_t kBlockCols = 256;
constexpr size_t kSlack = kLanes;

// An operand: element (i, p) of row (of a) or column (of b) i and depth p is at
// data[i*stride + p] if along_depth, data[p*stride + i] otherwise.
struct Operand {
  const uint16_t* data;
  size_t stride;
  bool along_depth;

  Operand At(size_t i, size_t p) const {
    return {data + (along_depth ? i * stride + p : p * stride + i), stride, along_depth};
  }
};

inline size_t Min(size_t x, size_t y) { return x < y ? x : y; }

inline size_t RoundUp(size_t x, size_t step) { return (x + step - 1) / step * step; }

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

// Multiply at the matrix's edge, where only rows x cols are left.
template <class Kernel>
void MultiplyEdge(Kernel& kernel, size_t rows, size_t cols, size_t pairs, const float* a,
                  const float* b, float* c, size_t ldc, bool add) {
  constexpr size_t kCols = Kernel::kTileCols;
  float tile[Kernel::kTileRows * kCols] = {};
  for (size_t i = 0; add && i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) tile[i * kCols + j] = c[i * ldc + j];
  }
  kernel.Multiply(rows, pairs, a, b, tile, kCols, add);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) c[i * ldc + j] = tile[i * kCols + j];
  }
}

// c[rows x cols] (+)= packed block a times packed block b.
template <class Kernel>
void MultiplyBlocks(Kernel& kernel, size_t rows, size_t cols, size_t pairs, const float* a,
                    const float* b, float* c, size_t ldc, bool add) {
  constexpr size_t kRows = Kernel::kTileRows;
  constexpr size_t kCols = Kernel::kTileCols;
  for (size_t j = 0; j < cols; j += kCols) {
    const size_t tile_cols = Min(kCols, cols - j);
    for (size_t i = 0; i < rows; i += kRows) {
      const size_t tile_rows = Min(kRows, rows - i);
      const float* panel_a = a + i * pairs;
      const float* panel_b = b + j * pairs;
      float* tile = c + i * ldc + j;
      if (tile_rows == kRows && tile_cols == kCols) {
        kernel.Multiply(kRows, pairs, panel_a, panel_b, tile, ldc, add);
      } else {
        MultiplyEdge(kernel, tile_rows, tile_cols, pairs, panel_a, panel_b, tile, ldc, add);
      }
    }
  }
}

inline void Clear(size_t m, size_t n, float* c, size_t ldc) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) c[i * ldc + j] = 0.0f;
  }
}

template <class Kernel>
void Gemm(size_t m, size_t n, size_t k, const Operand& a, const Operand& b, float* c, size_t ldc,
          bool accumulate) {
  static_assert(kBlockRows % Kernel::kTileRows == 0 && kBlockCols % Kernel::kTileCols == 0);
  static_assert(kDepth / 2 % Kernel::kPairStep == 0);
  if (k == 0 && !accumulate) Clear(m, n, c, ldc);
  if (k == 0) return;
  Kernel kernel;
  // b first: the slack behind a's last panel is then the scratch's end.
  float* packed_b = GemmScratch((kBlockRows + kBlockCols) * kDepth / 2 + kSlack);
  float* packed_a = packed_b + kBlockCols * kDepth / 2;
  for (size_t p = 0; p < k; p += kDepth) {
    const size_t depth = Min(kDepth, k - p);
    const size_t pairs = RoundUp((depth + 1) / 2, Kernel::kPairStep);
    const bool add = accumulate || p > 0;
    for (size_t i = 0; i < m; i += kBlockRows) {
      const size_t rows = Min(kBlockRows, m - i);
      kernel.PackA(rows, depth, pairs, a.At(i, p), packed_a);
      for (size_t j = 0; j < n; j += kBlockCols) {
        const size_t cols = Min(kBlockCols, n - j);
        const bool still_packed = n <= kBlockCols && i > 0;
        if (!still_packed) kernel.PackB(cols, depth, pairs, b.At(j, p), packed_b);
        MultiplyBlocks(kernel, rows, cols, pairs, packed_a, packed_b, c + i * ldc + j, ldc, add);
      }
    }
  }
}

template <class Kernel>
void GemmNt(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b,
            size_t ldb, float* c, size_t ldc, bool accumulate) {
  Gemm<Kernel>(m, n, k, {a, lda, true}, {b, ldb, true}, c, ldc, accumulate);
}

template <class Kernel>
void GemmNn(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b,
            size_t ldb, float* c, size_t ldc, bool accumulate) {
  Gemm<Kernel>(m, n, k, {a, lda, true}, {b, ldb, false}, c, ldc, accumulate);
}

template <class Kernel>
void GemmTn(size_t m, size_t n, size_t k, const uint16_t* a, size_t lda, const uint16_t* b,
            size_t ldb, float* c, size_t ldc, bool accumulate) {
  Gemm<Kernel>(m, n, k, {a, lda, false}, {b, ldb, false}, c, ldc, accumulate);
}

template <class Kernel>
constexpr Bf16Gemm MakeBf16Gemm(const char* name) {
  return {.name = name, .nt = GemmNt<Kernel>, .nn = GemmNn<Kernel>, .tn = GemmTn<Kernel>};
}

}  // namespace
}  // namespace dslide
