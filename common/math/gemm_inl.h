// Matrix products over the including file's Vec, kLanes and kRowsPerTile. See kernels_inl.h.
#pragma once

#include <cstddef>

#include "common/math/kernels_internal.h"
#include "common/math/vector_inl.h"

namespace dslide {
namespace {

using Element = float;
constexpr size_t kElementsPerUnit = 1;
// A panel of b (kDepth x 2 vectors, 32 KB at 16 lanes) stays in the L1 cache while the block of a
// (kBlockRows x kDepth, 264 KB) streams from L2.
constexpr size_t kDepth = 256;
constexpr size_t kBlockRows = 264;
constexpr size_t kBlockCols = 256;
// The last row stored into a transposed panel of a ends less than a vector beyond the panel.
constexpr size_t kSlack = kLanes;

static_assert(kRowsPerTile % 3 == 0 && kRowsPerTile <= kLanes && kLanes - kRowsPerTile <= kSlack);

}  // namespace
}  // namespace dslide

#include "common/math/gemm_blocks_inl.h"

namespace dslide {
namespace {

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

// A tile of `rows` rows, by thirds: rows beyond them are not computed.
template <typename Kernel>
void MultiplyTile(size_t rows, size_t depth, const float* a, const float* b, float* c, size_t ldc,
                  bool add) {
  constexpr size_t kThird = Kernel::kTileRows / 3;
  if (rows <= kThird) {
    Kernel::template MultiplyRows<kThird>(depth, a, b, c, ldc, add);
  } else if (rows <= 2 * kThird) {
    Kernel::template MultiplyRows<2 * kThird>(depth, a, b, c, ldc, add);
  } else {
    Kernel::template MultiplyRows<Kernel::kTileRows>(depth, a, b, c, ldc, add);
  }
}

// Panel a is [depth x kRowsPerTile], panel b [depth x 2 vectors].
struct FloatKernel {
  static constexpr size_t kTileRows = kRowsPerTile;
  static constexpr size_t kTileCols = 2 * kLanes;
  static constexpr size_t kUnitStep = 1;

  static void PackA(size_t size, size_t depth, size_t /*units*/, const Operand& x, float* out) {
    Pack<kTileRows>(size, depth, x, out);
  }

  static void PackB(size_t size, size_t depth, size_t /*units*/, const Operand& x, float* out) {
    Pack<kTileCols>(size, depth, x, out);
  }

  template <size_t kRows>
  static void MultiplyRows(size_t depth, const float* a, const float* b, float* c, size_t ldc,
                           bool add) {
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

  static void Multiply(size_t rows, size_t depth, const float* a, const float* b, float* c,
                       size_t ldc, bool add) {
    MultiplyTile<FloatKernel>(rows, depth, a, b, c, ldc, add);
  }
};

}  // namespace
}  // namespace dslide
