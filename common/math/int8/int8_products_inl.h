// What the vector variants of Int8Scan share. The including file defines Scores, a vector of kLanes
// floats, HighLanes, StoreAll and StoreFirst before, and Products<Sink> after: an Operands that
// runs over all panels and gives each Scores to its sink, `take`.
//
// Everything is in an anonymous namespace and nothing of the standard library is instantiated
// (kernels_inl.h says why).
#pragma once

#include "common/math/int8/int8_scan_internal.h"

namespace dslide {
namespace {

// See Int8Scan.
struct Operands {
  size_t units;
  const int8_t* queries;
  const float* query_scales;
  const int8_t* rows;
  const float* row_scales;
  const float* bias;
};

// Takes the scores that are high.
struct High {
  const float* thresholds;
  Int8Hit* hits;
  size_t found = 0;

  void operator()(size_t i, size_t j, Scores score) {
    uint32_t high = HighLanes(score, thresholds[i]);
    if (high == 0) [[likely]]
      return;
    alignas(sizeof(Scores)) float scores[kLanes];
    StoreAll(score, scores);
    for (; high != 0; high &= high - 1) {
      const auto r = static_cast<size_t>(__builtin_ctz(high));
      hits[found++] = {static_cast<uint32_t>(i), static_cast<uint32_t>(j + r), scores[r]};
    }
  }
};

// Writes all scores.
struct All {
  size_t query_count, row_count;
  float* out;
  size_t stride;

  void operator()(size_t i, size_t j, Scores score) const {
    if (i >= query_count || j >= row_count) return;
    float* to = out + i * stride + j;
    if (row_count - j >= kLanes) {
      StoreAll(score, to);
    } else {
      StoreFirst(row_count - j, score, to);
    }
  }
};

template <template <typename> typename Products>
size_t Find(size_t units, size_t query_panels, const int8_t* queries, const float* query_scales,
            const float* thresholds, size_t row_panels, const int8_t* rows, const float* row_scales,
            const float* bias, Int8Hit* hits) {
  Products<High> products{{units, queries, query_scales, rows, row_scales, bias},
                          {thresholds, hits}};
  products.Run(query_panels, row_panels);
  return products.take.found;
}

template <template <typename> typename Products>
void Score(size_t units, size_t query_count, const int8_t* queries, const float* query_scales,
           size_t row_count, const int8_t* rows, const float* row_scales, const float* bias,
           float* out, size_t stride) {
  Products<All> products{{units, queries, query_scales, rows, row_scales, bias},
                         {query_count, row_count, out, stride}};
  products.Run((query_count + kInt8PanelQueries - 1) / kInt8PanelQueries,
               (row_count + kInt8PanelRows - 1) / kInt8PanelRows);
}

}  // namespace
}  // namespace dslide
