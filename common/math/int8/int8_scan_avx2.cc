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

// What both scores and scans are made of.
struct Operands {
  size_t units;
  const int8_t* queries;
  const float* query_scales;
  const int8_t* rows;
  const float* row_scales;
  const float* bias;

  // Of query i and the rows from j on, given the sums of their products.
  __m256 Score(size_t i, size_t j, __m256i sums) const {
    const __m256 scale = _mm256_loadu_ps(row_scales + j) * _mm256_set1_ps(query_scales[i]);
    return _mm256_loadu_ps(bias + j) + scale * _mm256_cvtepi32_ps(sums);
  }
};

// Takes the scores that are high.
struct High {
  const float* thresholds;
  Int8Hit* hits;
  size_t found = 0;

  void operator()(size_t i, size_t j, __m256 score) {
    const int high =
        _mm256_movemask_ps(_mm256_cmp_ps(score, _mm256_set1_ps(thresholds[i]), _CMP_GE_OQ));
    if (high == 0) [[likely]]
      return;
    alignas(32) float scores[kLanes];
    _mm256_store_ps(scores, score);
    for (auto left = static_cast<unsigned>(high); left != 0; left &= left - 1) {
      const auto r = static_cast<size_t>(__builtin_ctz(left));
      hits[found++] = {static_cast<uint32_t>(i), static_cast<uint32_t>(j + r), scores[r]};
    }
  }
};

// Writes all scores.
struct All {
  size_t query_count, row_count;
  float* out;
  size_t stride;

  void operator()(size_t i, size_t j, __m256 score) const {
    if (i >= query_count || j >= row_count) return;
    float* to = out + i * stride + j;
    if (row_count - j >= kLanes) return _mm256_storeu_ps(to, score);
    alignas(32) float scores[kLanes];
    _mm256_store_ps(scores, score);
    __builtin_memcpy(to, scores, (row_count - j) * sizeof(float));
  }
};

template <typename Sink>
struct Products : Operands {
  Sink take;

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
      for (size_t q = 0; q < kInt8PanelQueries; ++q) {
        take(i + q, j + p * kLanes, Score(i + q, j + p * kLanes, totals[q][p]));
      }
    }
  }

  void Run(size_t query_panels, size_t row_panels) {
    for (size_t p = 0; p < row_panels; ++p) {
      for (size_t t = 0; t < query_panels; ++t) Block(t * kInt8PanelQueries, p * kInt8PanelRows);
    }
  }
};

size_t Find(size_t units, size_t query_panels, const int8_t* queries, const float* query_scales,
            const float* thresholds, size_t row_panels, const int8_t* rows, const float* row_scales,
            const float* bias, Int8Hit* hits) {
  Products<High> products{{units, queries, query_scales, rows, row_scales, bias},
                          {thresholds, hits}};
  products.Run(query_panels, row_panels);
  return products.take.found;
}

void Score(size_t units, size_t query_count, const int8_t* queries, const float* query_scales,
           size_t row_count, const int8_t* rows, const float* row_scales, const float* bias,
           float* out, size_t stride) {
  Products<All> products{{units, queries, query_scales, rows, row_scales, bias},
                         {query_count, row_count, out, stride}};
  products.Run((query_count + kInt8PanelQueries - 1) / kInt8PanelQueries,
               (row_count + kInt8PanelRows - 1) / kInt8PanelRows);
}

}  // namespace

constinit const Int8Scan kAvx2Int8Scan = {"avx2", Find, Score};

}  // namespace dslide
