// Blocking of matrix products, for a Kernel and the element type of the including file.
//
// The structure is that of BLIS (Van Zee, van de Geijn: "BLIS: A framework for rapidly
// instantiating BLAS functionality", TOMS 2015). Blocks of both operands are copied into panels
// that hold, for every depth p, a tile's rows (of a) or columns (of b) side by side, padded with
// zeros; the Kernel multiplies one panel of a with one of b. The order of the additions into an
// element depends on k alone, so a row's result does not depend on which rows are computed with it.
//
// The including file defines, before it includes this one:
//   Element              of a and b
//   kElementsPerUnit     elements along the depth that a panel holds in one float
//   kDepth, kBlockRows, kBlockCols   cache blocking, in elements
//   kSlack               floats that a Kernel may write beyond the last panel of a
//
// A Kernel lives for one product and has
//   kTileRows, kTileCols         the size of c that one Multiply computes
//   kUnitStep                    the number of units in a panel is a multiple of it
//   PackA(size, depth, units, x, out)   packs `size` rows into panels of kTileRows rows, the last
//                                one padded
//   PackB(size, depth, units, x, out)   the same for columns
//   Multiply(rows, units, a, b, c, ldc, add)   c[kTileRows x kTileCols] (+)= panel a * panel b, of
//                                which the caller uses the first `rows` rows
#pragma once

#include <cstddef>

#include "common/math/kernels_internal.h"

namespace dslide {
namespace {

// An operand: element (i, p) of row (of a) or column (of b) i and depth p is at
// data[i*stride + p] if along_depth, data[p*stride + i] otherwise.
struct Operand {
  const Element* data;
  size_t stride;
  bool along_depth;

  Operand At(size_t i, size_t p) const {
    return {data + (along_depth ? i * stride + p : p * stride + i), stride, along_depth};
  }
};

inline size_t Min(size_t x, size_t y) { return x < y ? x : y; }

inline size_t RoundUp(size_t x, size_t step) { return (x + step - 1) / step * step; }

// Multiply at the matrix's edge, where only rows x cols are left.
template <class Kernel>
void MultiplyEdge(Kernel& kernel, size_t rows, size_t cols, size_t units, const float* a,
                  const float* b, float* c, size_t ldc, bool add) {
  constexpr size_t kCols = Kernel::kTileCols;
  alignas(64) float tile[Kernel::kTileRows * kCols];
  for (size_t i = 0; add && i < Kernel::kTileRows; ++i) {
    for (size_t j = 0; j < kCols; ++j) {
      tile[i * kCols + j] = i < rows && j < cols ? c[i * ldc + j] : 0.0f;
    }
  }
  kernel.Multiply(rows, units, a, b, tile, kCols, add);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) c[i * ldc + j] = tile[i * kCols + j];
  }
}

// c[rows x cols] (+)= packed block a times packed block b.
template <class Kernel>
void MultiplyBlocks(Kernel& kernel, size_t rows, size_t cols, size_t units, const float* a,
                    const float* b, float* c, size_t ldc, bool add) {
  constexpr size_t kRows = Kernel::kTileRows;
  constexpr size_t kCols = Kernel::kTileCols;
  for (size_t j = 0; j < cols; j += kCols) {
    const size_t tile_cols = Min(kCols, cols - j);
    for (size_t i = 0; i < rows; i += kRows) {
      const size_t tile_rows = Min(kRows, rows - i);
      const float* panel_a = a + i * units;
      const float* panel_b = b + j * units;
      float* tile = c + i * ldc + j;
      if (tile_rows == kRows && tile_cols == kCols) {
        kernel.Multiply(kRows, units, panel_a, panel_b, tile, ldc, add);
      } else {
        MultiplyEdge(kernel, tile_rows, tile_cols, units, panel_a, panel_b, tile, ldc, add);
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
  static_assert(kDepth / kElementsPerUnit % Kernel::kUnitStep == 0);
  if (k == 0 && !accumulate) Clear(m, n, c, ldc);
  if (k == 0) return;
  Kernel kernel;
  // b first: the slack behind a's last panel is then the scratch's end.
  float* packed_b = GemmScratch((kBlockRows + kBlockCols) * kDepth / kElementsPerUnit + kSlack);
  float* packed_a = packed_b + kBlockCols * kDepth / kElementsPerUnit;
  for (size_t p = 0; p < k; p += kDepth) {
    const size_t depth = Min(kDepth, k - p);
    const size_t units =
        RoundUp((depth + kElementsPerUnit - 1) / kElementsPerUnit, Kernel::kUnitStep);
    const bool add = accumulate || p > 0;
    for (size_t i = 0; i < m; i += kBlockRows) {
      const size_t rows = Min(kBlockRows, m - i);
      kernel.PackA(rows, depth, units, a.At(i, p), packed_a);
      for (size_t j = 0; j < n; j += kBlockCols) {
        const size_t cols = Min(kBlockCols, n - j);
        const bool still_packed = n <= kBlockCols && i > 0;
        if (!still_packed) kernel.PackB(cols, depth, units, b.At(j, p), packed_b);
        MultiplyBlocks(kernel, rows, cols, units, packed_a, packed_b, c + i * ldc + j, ldc, add);
      }
    }
  }
}

template <class Kernel>
void GemmNt(size_t m, size_t n, size_t k, const Element* a, size_t lda, const Element* b,
            size_t ldb, float* c, size_t ldc, bool accumulate) {
  Gemm<Kernel>(m, n, k, {a, lda, true}, {b, ldb, true}, c, ldc, accumulate);
}

template <class Kernel>
void GemmNn(size_t m, size_t n, size_t k, const Element* a, size_t lda, const Element* b,
            size_t ldb, float* c, size_t ldc, bool accumulate) {
  Gemm<Kernel>(m, n, k, {a, lda, true}, {b, ldb, false}, c, ldc, accumulate);
}

template <class Kernel>
void GemmTn(size_t m, size_t n, size_t k, const Element* a, size_t lda, const Element* b,
            size_t ldb, float* c, size_t ldc, bool accumulate) {
  Gemm<Kernel>(m, n, k, {a, lda, false}, {b, ldb, false}, c, ldc, accumulate);
}

}  // namespace
}  // namespace dslide
