// The scan with AVX512-VNNI's vpdpbusd: each of 16 lanes adds four products of bytes. Runs only
// where int8_scan.cc finds the instruction. Nothing of the standard library is instantiated here
// (kernels_inl.h says why).
#include <immintrin.h>

#include "common/math/int8/int8_scan_internal.h"

namespace dslide {
namespace {

constexpr size_t kGroup = 4;
constexpr auto kAllLanes = static_cast<__mmask16>(~0);  // masked forms: see kernels_avx512.cc

// What both scores and scans are made of.
struct Operands {
  size_t units;
  const int8_t* queries;
  const float* query_scales;
  const int8_t* rows;
  const float* row_scales;
  const float* bias;

  // Of query i and the rows from j on, given the sums of their products.
  __m512 Score(size_t i, size_t j, __m512i sums) const {
    const __m512 scale = _mm512_loadu_ps(row_scales + j) * _mm512_set1_ps(query_scales[i]);
    return _mm512_loadu_ps(bias + j) + scale * _mm512_maskz_cvtepi32_ps(kAllLanes, sums);
  }
};

// Takes the scores that are high.
struct High {
  const float* thresholds;
  Int8Hit* hits;
  size_t found = 0;

  void operator()(size_t i, size_t j, __m512 score) {
    const __mmask16 high = _mm512_cmp_ps_mask(score, _mm512_set1_ps(thresholds[i]), _CMP_GE_OQ);
    if (high == 0) [[likely]]
      return;
    alignas(64) float scores[kInt8PanelRows];
    _mm512_store_ps(scores, score);
    for (unsigned left = high; left != 0; left &= left - 1) {
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

  void operator()(size_t i, size_t j, __m512 score) const {
    if (i >= query_count) return;
    const size_t left = row_count - j;
    const auto mask = left >= kInt8PanelRows ? kAllLanes : static_cast<__mmask16>((1u << left) - 1);
    _mm512_mask_storeu_ps(out + i * stride + j, mask, score);
  }
};

template <typename Sink>
struct Products : Operands {
  Sink take;

  // kTiles panels of queries from query i on, kPanels panels of rows from row j on.
  template <size_t kTiles, size_t kPanels>
  void Block(size_t i, size_t j) {
    constexpr size_t kQueries = kTiles * kInt8PanelQueries;
    const size_t query_bytes = units * kInt8PanelQueries * kGroup;
    const size_t row_bytes = units * kInt8PanelRows * kGroup;
    const int8_t* a = queries + i * units * kGroup;
    const int8_t* b = rows + j * units * kGroup;
    __m512i sums[kQueries][kPanels] = {};
    for (size_t u = 0; u < units; ++u) {
      __m512i row[kPanels];
      for (size_t p = 0; p < kPanels; ++p) {
        row[p] = _mm512_loadu_si512(b + p * row_bytes + u * kInt8PanelRows * kGroup);
      }
#pragma GCC unroll 16
      for (size_t q = 0; q < kQueries; ++q) {
        int32_t group;
        __builtin_memcpy(&group,
                         a + q / kInt8PanelQueries * query_bytes +
                             (u * kInt8PanelQueries + q % kInt8PanelQueries) * kGroup,
                         kGroup);
        const __m512i query = _mm512_set1_epi32(group);
        for (size_t p = 0; p < kPanels; ++p) {
          sums[q][p] = _mm512_dpbusd_epi32(sums[q][p], query, row[p]);
        }
      }
    }
    // Through memory, because GCC keeps the sums in registers only if each is used by number.
    __m512i totals[kQueries][kPanels];
#pragma GCC unroll 16
    for (size_t q = 0; q < kQueries; ++q) {
      for (size_t p = 0; p < kPanels; ++p) _mm512_store_si512(&totals[q][p], sums[q][p]);
    }
    for (size_t p = 0; p < kPanels; ++p) {
      for (size_t q = 0; q < kQueries; ++q) {
        take(i + q, j + p * kInt8PanelRows, Score(i + q, j + p * kInt8PanelRows, totals[q][p]));
      }
    }
  }

  template <size_t kPanels>
  void Rows(size_t query_panels, size_t j) {
    size_t t = 0;
    for (; t + 3 <= query_panels; t += 3) Block<3, kPanels>(t * kInt8PanelQueries, j);
    if (t + 2 == query_panels) Block<2, kPanels>(t * kInt8PanelQueries, j);
    if (t + 1 == query_panels) Block<1, kPanels>(t * kInt8PanelQueries, j);
  }

  void Run(size_t query_panels, size_t row_panels) {
    size_t p = 0;
    for (; p + 2 <= row_panels; p += 2) Rows<2>(query_panels, p * kInt8PanelRows);
    if (p < row_panels) Rows<1>(query_panels, p * kInt8PanelRows);
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

constinit const Int8Scan kAvx512VnniInt8Scan = {"avx512vnni", Find, Score};

}  // namespace dslide
