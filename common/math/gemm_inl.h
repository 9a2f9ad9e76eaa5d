// Matrix products over the including file's Vec. See kernels_inl.h.
//
// The structure is that of BLIS (Van Zee, van de Geijn: "BLIS: A framework for rapidly
// instantiating BLAS functionality", TOMS 2015). Blocks of both operands are copied into panels
// that hold, for every depth p, the tile's rows (of a) or columns (of b) side by side, padded with
// zeros; a register-blocked kernel multiplies one panel of a with one of b.
//
// The order of the additions into an element depends on k alone, so a row's result does not depend
// on which rows are computed with it.
#pragma once

#include <cstddef>

#include "common/math/kernels_internal.h"
#include "common/math/vector_inl.h"

namespace dslide {
namespace {

constexpr size_t kTileCols = 2 * kLanes;
// Cache blocking, in floats. A panel of b (kDepth x kTileCols, 32 KB at 16 lanes) stays in the L1
// cache while the block of a (kBlockRows x kDepth, 264 KB) streams from L2.
constexpr size_t kDepth = 256;
constexpr size_t kBlockRows = 264;
constexpr size_t kBlockCols = 256;
// The last row stored into a transposed panel of a ends less than a vector beyond the panel.
constexpr size_t kSlack = kLanes;

static_assert(kBlockRows % kTileRows == 0 && kBlockCols % kTileCols == 0);
static_assert(kTileRows % 3 == 0 && kTileRows <= kLanes && kLanes - kTileRows <= kSlack);

// An operand: element (i, p) of row (of a) or column (of b) i and depth p is at
// data[i*stride + p] if along_depth, data[p*stride + i] otherwise.
struct Operand {
  const float* data;
  size_t stride;
  bool along_depth;

  Operand At(size_t i, size_t p) const {
    return {data + (along_depth ? i * stride + p : p * stride + i), stride, along_depth};
  }
};

inline size_t Min(size_t x, size_t y) { return x < y ? x : y; }

inline Vec LoadUpTo(size_t n, const float* x) { return n == kLanes ? Load(x) : LoadFirst(n, x); }

// out[p*kWidth + i] = (i, p) for i < width <= kWidth, 0 for the other i. Writes up to kSlack floats
// more.
template <size_t kWidth>
void PackAlongDepth(size_t width, size_t depth, const Operand& x, float* out) {
  for (size_t i0 = 0; i0 < kWidth; i0 += kLanes) {
    const size_t rows = i0 < width ? Min(kLanes, width - i0) : 0;
    for (size_t p = 0; p < depth; p += kLanes) {
      const size_t count = Min(kLanes, depth - p);
      Vec block[kLanes];
#pragma GCC unroll 16
      for (size_t r = 0; r < kLanes; ++r) {
        block[r] = r < rows ? LoadUpTo(count, x.data + (i0 + r) * x.stride + p) : Vec{};
      }
      Transpose(block);
      for (size_t q = 0; q < count; ++q) Store(block[q], out + (p + q) * kWidth + i0);
    }
  }
}

// The same for an operand whose rows lie across the depth, without the excess.
template <size_t kWidth>
void PackAcrossDepth(size_t width, size_t depth, const Operand& x, float* out) {
  for (size_t p = 0; p < depth; ++p) {
    const float* from = x.data + p * x.stride;
    if (width == kWidth) {
      __builtin_memcpy(out + p * kWidth, from, kWidth * sizeof(float));
    } else {
      for (size_t i = 0; i < kWidth; ++i) out[p * kWidth + i] = i < width ? from[i] : 0.0f;
    }
  }
}

// Packs `size` rows or columns into panels of kWidth, each [depth x kWidth].
template <size_t kWidth>
void Pack(size_t size, size_t depth, const Operand& x, float* out) {
  for (size_t i = 0; i < size; i += kWidth) {
    const size_t width = Min(kWidth, size - i);
    if (x.along_depth) {
      PackAlongDepth<kWidth>(width, depth, x.At(i, 0), out + i * depth);
    } else {
      PackAcrossDepth<kWidth>(width, depth, x.At(i, 0), out + i * depth);
    }
  }
}

// c[kRows x kTileCols] (+)= the first kRows of panel a times panel b.
template <size_t kRows>
void MultiplyTile(size_t depth, const float* a, const float* b, float* c, size_t ldc, bool add) {
  Vec sums[kRows][2] = {};
  for (size_t p = 0; p < depth; ++p) {
    const Vec b0 = Load(b + p * kTileCols);
    const Vec b1 = Load(b + p * kTileCols + kLanes);
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i) {
      const Vec ai = Splat(a[p * kTileRows + i]);
      sums[i][0] += ai * b0;
      sums[i][1] += ai * b1;
    }
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < kRows; ++i) {
    float* row = c + i * ldc;
    Store(add ? Load(row) + sums[i][0] : sums[i][0], row);
    Store(add ? Load(row + kLanes) + sums[i][1] : sums[i][1], row + kLanes);
  }
}

// MultiplyTile at the matrix's edge, where only rows x cols are left.
void MultiplyEdge(size_t rows, size_t cols, size_t depth, const float* a, const float* b, float* c,
                  size_t ldc, bool add) {
  constexpr size_t kThird = kTileRows / 3;
  float tile[kTileRows * kTileCols];
  if (rows <= kThird) {
    MultiplyTile<kThird>(depth, a, b, tile, kTileCols, false);
  } else if (rows <= 2 * kThird) {
    MultiplyTile<2 * kThird>(depth, a, b, tile, kTileCols, false);
  } else {
    MultiplyTile<kTileRows>(depth, a, b, tile, kTileCols, false);
  }
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) {
      const float sum = tile[i * kTileCols + j];
      c[i * ldc + j] = add ? c[i * ldc + j] + sum : sum;
    }
  }
}

// c[rows x cols] (+)= packed block a times packed block b.
void MultiplyBlocks(size_t rows, size_t cols, size_t depth, const float* a, const float* b,
                    float* c, size_t ldc, bool add) {
  for (size_t j = 0; j < cols; j += kTileCols) {
    const size_t tile_cols = Min(kTileCols, cols - j);
    for (size_t i = 0; i < rows; i += kTileRows) {
      const size_t tile_rows = Min(kTileRows, rows - i);
      float* tile = c + i * ldc + j;
      if (tile_rows == kTileRows && tile_cols == kTileCols) {
        MultiplyTile<kTileRows>(depth, a + i * depth, b + j * depth, tile, ldc, add);
      } else {
        MultiplyEdge(tile_rows, tile_cols, depth, a + i * depth, b + j * depth, tile, ldc, add);
      }
    }
  }
}

void Clear(size_t m, size_t n, float* c, size_t ldc) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) c[i * ldc + j] = 0.0f;
  }
}

void Gemm(size_t m, size_t n, size_t k, const Operand& a, const Operand& b, float* c, size_t ldc,
          bool accumulate) {
  if (k == 0 && !accumulate) Clear(m, n, c, ldc);
  float* packed_a = GemmScratch((kBlockRows + kBlockCols) * kDepth + kSlack);
  // b first: the slack behind a's last panel is then the scratch's end.
  float* packed_b = packed_a;
  packed_a += kBlockCols * kDepth;
  for (size_t p = 0; p < k; p += kDepth) {
    const size_t depth = Min(kDepth, k - p);
    const bool add = accumulate || p > 0;
    for (size_t i = 0; i < m; i += kBlockRows) {
      const size_t rows = Min(kBlockRows, m - i);
      Pack<kTileRows>(rows, depth, a.At(i, p), packed_a);
      for (size_t j = 0; j < n; j += kBlockCols) {
        const size_t cols = Min(kBlockCols, n - j);
        const bool still_packed = n <= kBlockCols && i > 0;
        if (!still_packed) Pack<kTileCols>(cols, depth, b.At(j, p), packed_b);
        MultiplyBlocks(rows, cols, depth, packed_a, packed_b, c + i * ldc + j, ldc, add);
      }
    }
  }
}

void GemmNt(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
            float* c, size_t ldc, bool accumulate) {
  Gemm(m, n, k, {a, lda, true}, {b, ldb, true}, c, ldc, accumulate);
}

void GemmNn(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
            float* c, size_t ldc, bool accumulate) {
  Gemm(m, n, k, {a, lda, true}, {b, ldb, false}, c, ldc, accumulate);
}

void GemmTn(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
            float* c, size_t ldc, bool accumulate) {
  Gemm(m, n, k, {a, lda, false}, {b, ldb, false}, c, ldc, accumulate);
}

}  // namespace
}  // namespace dslide
