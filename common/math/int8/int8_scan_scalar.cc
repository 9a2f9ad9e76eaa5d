#include "common/math/int8/int8_scan_internal.h"

namespace dslide {
namespace {

// The score of a pair, with one bias and scale a vector.
float ScoreOf(size_t units, const int8_t* queries, const float* query_scales, size_t i,
              const int8_t* rows, const float* row_scales, const float* bias, size_t j) {
  const int8_t* row = rows + j / kInt8PanelRows * kInt8PanelRows * units * kInt8Group +
                      j % kInt8PanelRows * kInt8Group;
  const int8_t* query = queries + i / kInt8PanelQueries * kInt8PanelQueries * units * kInt8Group +
                        i % kInt8PanelQueries * kInt8Group;
  int32_t sum = 0;
  for (size_t u = 0; u < units; ++u) {
    for (size_t e = 0; e < kInt8Group; ++e) {
      sum +=
          query[u * kInt8PanelQueries * kInt8Group + e] * row[u * kInt8PanelRows * kInt8Group + e];
    }
  }
  return bias[j] + query_scales[i] * row_scales[j] * static_cast<float>(sum);
}

size_t Find(size_t units, size_t query_panels, const int8_t* queries, const float* query_scales,
            const float* thresholds, size_t row_panels, const int8_t* rows, const float* row_scales,
            const float* bias, Int8Hit* hits) {
  size_t found = 0;
  for (size_t j = 0; j < row_panels * kInt8PanelRows; ++j) {
    for (size_t i = 0; i < query_panels * kInt8PanelQueries; ++i) {
      const float score = ScoreOf(units, queries, query_scales, i, rows, row_scales, bias, j);
      if (score >= thresholds[i]) {
        hits[found++] = {static_cast<uint32_t>(i), static_cast<uint32_t>(j), score};
      }
    }
  }
  return found;
}

void Score(size_t units, size_t query_count, const int8_t* queries, const float* query_scales,
           size_t row_count, const int8_t* rows, const float* row_scales, const float* bias,
           float* out, size_t stride) {
  for (size_t i = 0; i < query_count; ++i) {
    for (size_t j = 0; j < row_count; ++j) {
      out[i * stride + j] = ScoreOf(units, queries, query_scales, i, rows, row_scales, bias, j);
    }
  }
}

}  // namespace

constinit const Int8Scan kScalarInt8Scan = {"scalar", Find, Score};

}  // namespace dslide
