// The scan with AVX512-VNNI's vpdpbusd: each of 16 lanes adds four products of bytes. Runs only
// where int8_scan.cc finds the instruction. Nothing of the standard library is instantiated here
// (kernels_inl.h says why).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace dslide {
namespace {

constexpr size_t kLanes = 16;
using Scores = __m512;

constexpr auto kAllLanes = static_cast<__mmask16>(~0);  // masked forms: see kernels_avx512.cc

// Bit r: lane r is at least `threshold`.
uint32_t HighLanes(Scores score, float threshold) {
  return _mm512_cmp_ps_mask(score, _mm512_set1_ps(threshold), _CMP_GE_OQ);
}

void StoreAll(Scores score, float* out) { _mm512_storeu_ps(out, score); }
// The first n < kLanes.
void StoreFirst(size_t n, Scores score, float* out) {
  _mm512_mask_storeu_ps(out, static_cast<__mmask16>((1u << n) - 1), score);
}

}  // namespace
}  // namespace dslide

#include "common/math/int8/int8_products_inl.h"

namespace dslide {
namespace {

template <typename Sink>
struct Products : Operands {
  Sink take;

  // The scores of query i and the rows from j on, given the sums of their products.
  Scores ScoresOf(size_t i, size_t j, __m512i sums) const {
    const __m512 scale = _mm512_loadu_ps(row_scales + j) * _mm512_set1_ps(query_scales[i]);
    return _mm512_loadu_ps(bias + j) + scale * _mm512_maskz_cvtepi32_ps(kAllLanes, sums);
  }

  // kTiles panels of queries from query i on, kPanels panels of rows from row j on.
  template <size_t kTiles, size_t kPanels>
  void Block(size_t i, size_t j) {
    constexpr size_t kQueries = kTiles * kInt8PanelQueries;
    const size_t query_bytes = units * kInt8PanelQueries * kInt8Group;
    const size_t row_bytes = units * kInt8PanelRows * kInt8Group;
    const int8_t* a = queries + i * units * kInt8Group;
    const int8_t* b = rows + j * units * kInt8Group;
    __m512i sums[kQueries][kPanels] = {};
    for (size_t u = 0; u < units; ++u) {
      __m512i row[kPanels];
      for (size_t p = 0; p < kPanels; ++p) {
        row[p] = _mm512_loadu_si512(b + p * row_bytes + u * kInt8PanelRows * kInt8Group);
      }
#pragma GCC unroll 16
      for (size_t q = 0; q < kQueries; ++q) {
        int32_t group;
        __builtin_memcpy(&group,
                         a + q / kInt8PanelQueries * query_bytes +
                             (u * kInt8PanelQueries + q % kInt8PanelQueries) * kInt8Group,
                         kInt8Group);
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
        take(i + q, j + p * kInt8PanelRows, ScoresOf(i + q, j + p * kInt8PanelRows, totals[q][p]));
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

}  // namespace

constinit const Int8Scan kAvx512VnniInt8Scan = {"avx512vnni", Find<Products>, Score<Products>};

}  // namespace dslide
