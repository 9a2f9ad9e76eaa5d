// The products on tiles of 16 rows of 64 bytes, for a Tile of the including file: the CPU's AMX
// tiles (bf16_gemm_amx.cc) or the tests' emulation of them.
//
// A Tile has eight such tiles, numbered by template arguments, and
//   Configure(), Release()                before the first and after the last use
//   Load<t>(from, stride), Store<t>(to, stride)   16 rows, `stride` bytes apart
//   Zero<t>()
//   MultiplyAdd<c, a, b>()                tile c [16 x 16 floats] += a * b, where a is [16 rows x
//                                         16 pairs] and b is [16 pairs x 16 columns]
#pragma once

#include "common/math/bf16_gemm_inl.h"

namespace dslide {
namespace {

// Two by two tiles: 0 to 3 are sums, 4 and 5 hold a, 6 and 7 hold b. A packed operand is a row of
// 16 x 16 pairs, ready to load, for each 16 rows of a or columns of b.
template <class Tile>
class AmxKernel {
 public:
  static constexpr size_t kTileRows = 2 * kLanes;
  static constexpr size_t kTileCols = 2 * kLanes;
  static constexpr size_t kUnitStep = kLanes;

  AmxKernel() { Tile::Configure(); }
  ~AmxKernel() { Tile::Release(); }
  AmxKernel(const AmxKernel&) = delete;
  AmxKernel& operator=(const AmxKernel&) = delete;

  static void PackA(size_t size, size_t depth, size_t pairs, const Operand& x, float* out) {
    Pack<kLanes, false>(size, RoundUp(size, kTileRows), depth, pairs, x, out);
  }

  static void PackB(size_t size, size_t depth, size_t pairs, const Operand& x, float* out) {
    Pack<kLanes, true>(size, RoundUp(size, kTileCols), depth, pairs, x, out);
  }

  static void Multiply(size_t /*rows*/, size_t pairs, const float* a, const float* b, float* c,
                       size_t ldc, bool add) {
    constexpr size_t kRowBytes = kLanes * sizeof(float);
    const size_t stride = ldc * sizeof(float);
    float* below = c + kLanes * ldc;
    if (add) {
      Tile::template Load<0>(c, stride);
      Tile::template Load<1>(c + kLanes, stride);
      Tile::template Load<2>(below, stride);
      Tile::template Load<3>(below + kLanes, stride);
    } else {
      Tile::template Zero<0>();
      Tile::template Zero<1>();
      Tile::template Zero<2>();
      Tile::template Zero<3>();
    }
    for (size_t p = 0; p < pairs; p += kLanes) {
      Tile::template Load<4>(a + p * kLanes, kRowBytes);
      Tile::template Load<6>(b + p * kLanes, kRowBytes);
      Tile::template Load<5>(a + (pairs + p) * kLanes, kRowBytes);
      Tile::template Load<7>(b + (pairs + p) * kLanes, kRowBytes);
      Tile::template MultiplyAdd<0, 4, 6>();
      Tile::template MultiplyAdd<1, 4, 7>();
      Tile::template MultiplyAdd<2, 5, 6>();
      Tile::template MultiplyAdd<3, 5, 7>();
    }
    Tile::template Store<0>(c, stride);
    Tile::template Store<1>(c + kLanes, stride);
    Tile::template Store<2>(below, stride);
    Tile::template Store<3>(below + kLanes, stride);
  }
};

}  // namespace
}  // namespace dslide
