// The scan with AVX2's vpmaddubsw and vpmaddwd: each of 8 lanes adds four products of bytes. Runs
// only where int8_scan.cc finds AVX2. Nothing of the standard library is instantiated here
// (kernels_inl.h says why).
#include <immintrin.h>

#include "common/math/int8/int8_scan_internal.h"

namespace dslide {
namespace {

constexpr size_t kGroup = 4;
constexpr size_t kLanes = 8;
constexpr size_t kHalves = kInt8PanelRows / kLanes;

struct Scan {
  size_t units;
  const int8_t* queries;
  const float* query_scales;
  const float* thresholds;
  const int8_t* rows;
  const float* row_scales;
  const float* bias;
  Int8Hit* hits;
  size_t found = 0;

  void Take(size_t i, size_t j, __m256 score, int high) {
    alignas(32) float scores[kLanes];
    _mm256_store_ps(scores, score);
    for (auto left = static_cast<unsigned>(high); left != 0; left &= left - 1) {
      const auto r = static_cast<size_t>(__builtin_ctz(left));
      hits[found++] = {static_cast<uint32_t>(i), static_cast<uint32_t>(j + r), scores[r]};
    }
  }

  // Takes the rows from j on whose score for query i is high, given the sums of their products.
  void Filter(size_t i, size_t j, __m256i sums) {
    const __m256 scale = _mm256_loadu_ps(row_scales + j) * _mm256_set1_ps(query_scales[i]);
    const __m256 score = _mm256_loadu_ps(bias + j) + scale * _mm256_cvtepi32_ps(sums);
    const int high =
        _mm256_movemask_ps(_mm256_cmp_ps(score, _mm256_set1_ps(thresholds[i]), _CMP_GE_OQ));
    if (high != 0) [[unlikely]]
      Take(i, j, score, high);
  }

  // A panel of queries from query i on, a panel of rows from row j on.
  void Block(size_t i, size_t j) {
    const int8_t* a = queries + i * units * kGroup;
    const int8_t* b = rows + j * units * kGroup;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sums[kInt8PanelQueries][kHalves] = {};
    for (size_t u = 0; u < units; ++u) {
      __m256i row[kHalves];
      for (size_t p = 0; p < kHalves; ++p) {
        row[p] = _mm256_loadu_si256(
            reinterpret_cast<const __m256i*>(b + (u * kInt8PanelRows + p * kLanes) * kGroup));
      }
#pragma GCC unroll 4
      for (size_t q = 0; q < kInt8PanelQueries; ++q) {
        int32_t group;
        __builtin_memcpy(&group, a + (u * kInt8PanelQueries + q) * kGroup, kGroup);
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
      for (size_t q = 0; q < kInt8PanelQueries; ++q) Filter(i + q, j + p * kLanes, totals[q][p]);
    }
  }
};

size_t Find(size_t units, size_t query_panels, const int8_t* queries, const float* query_scales,
            const float* thresholds, size_t row_panels, const int8_t* rows, const float* row_scales,
            const float* bias, Int8Hit* hits) {
  Scan scan{units, queries, query_scales, thresholds, rows, row_scales, bias, hits};
  for (size_t p = 0; p < row_panels; ++p) {
    for (size_t t = 0; t < query_panels; ++t) {
      scan.Block(t * kInt8PanelQueries, p * kInt8PanelRows);
    }
  }
  return scan.found;
}

}  // namespace

constinit const Int8Scan kAvx2Int8Scan = {"avx2", Find};

}  // namespace dslide
