// The scan with AVX2's vpmaddubsw and vpmaddwd: each of 8 lanes adds four products of bytes. Runs
// only where int8_scan.cc finds AVX2. Nothing of the standard library is instantiated here
// (kernels_inl.h says why).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace dslide {
namespace {

constexpr size_t kLanes = 8;
using Scores = __m256;

// Bit r: lane r is at least `threshold`.
uint32_t HighLanes(Scores score, float threshold) {
  return static_cast<uint32_t>(
      _mm256_movemask_ps(_mm256_cmp_ps(score, _mm256_set1_ps(threshold), _CMP_GE_OQ)));
}

void StoreAll(Scores score, float* out) { _mm256_storeu_ps(out, score); }
// The first n < kLanes.
void StoreFirst(size_t n, Scores score, float* out) {
  alignas(32) float scores[kLanes];
  _mm256_store_ps(scores, score);
  __builtin_memcpy(out, scores, n * sizeof(float));
}

}  // namespace
}  // namespace dslide

#include "common/math/int8/int8_products_inl.h"

namespace dslide {
namespace {

constexpr size_t kHalves = kInt8PanelRows / kLanes;

template <typename Sink>
struct Products : Operands {
  Sink take;

  // The scores of query i and the rows from j on, given the sums of their products.
  Scores ScoresOf(size_t i, size_t j, __m256i sums) const {
    const __m256 scale = _mm256_loadu_ps(row_scales + j) * _mm256_set1_ps(query_scales[i]);
    return _mm256_loadu_ps(bias + j) + scale * _mm256_cvtepi32_ps(sums);
  }

  // A panel of queries from query i on, a panel of rows from row j on.
  void Block(size_t i, size_t j) {
    const int8_t* a = queries + i * units * kInt8Group;
    const int8_t* b = rows + j * units * kInt8Group;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sums[kInt8PanelQueries][kHalves] = {};
    for (size_t u = 0; u < units; ++u) {
      __m256i row[kHalves];
      for (size_t p = 0; p < kHalves; ++p) {
        row[p] = _mm256_loadu_si256(
            reinterpret_cast<const __m256i*>(b + (u * kInt8PanelRows + p * kLanes) * kInt8Group));
      }
#pragma GCC unroll 4
      for (size_t q = 0; q < kInt8PanelQueries; ++q) {
        int32_t group;
        __builtin_memcpy(&group, a + (u * kInt8PanelQueries + q) * kInt8Group, kInt8Group);
        const __m256i query = _mm256_set1_epi32(group);
        for (size_t p = 0; p < kHalves; ++p) {
          const __m256i pairs = _mm256_maddubs_epi16(query, row[p]);
          sums[q][p] = _mm256_add_epi32(sums[q][p], _mm256_madd_epi16(pairs, ones));
        }
      }
    }
    // Through memory, because GCC keeps the sums in registers only if each is used by number.
    __m256i totals[kInt8PanelQueries][kHalves];
#pragma GCC unroll 4
    for (size_t q = 0; q < kInt8PanelQueries; ++q) {
      for (size_t p = 0; p < kHalves; ++p) _mm256_store_si256(&totals[q][p], sums[q][p]);
    }
    for (size_t p = 0; p < kHalves; ++p) {
      for (size_t q = 0; q < kInt8PanelQueries; ++q) {
        take(i + q, j + p * kLanes, ScoresOf(i + q, j + p * kLanes, totals[q][p]));
      }
    }
  }

  void Run(size_t query_panels, size_t row_panels) {
    for (size_t p = 0; p < row_panels; ++p) {
      for (size_t t = 0; t < query_panels; ++t) Block(t * kInt8PanelQueries, p * kInt8PanelRows);
    }
  }
};

}  // namespace

constinit const Int8Scan kAvx2Int8Scan = {"avx2", Find<Products>, Score<Products>};

}  // namespace dslide
