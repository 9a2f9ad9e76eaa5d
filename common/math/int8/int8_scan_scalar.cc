#include "common/math/int8/int8_scan_internal.h"

namespace dslide {
namespace {

size_t Find(size_t units, size_t query_panels, const int8_t* queries, const float* query_scales,
            const float* thresholds, size_t row_panels, const int8_t* rows, const float* row_scales,
            const float* bias, Int8Hit* hits) {
  constexpr size_t kGroup = 4;
  size_t found = 0;
  for (size_t j = 0; j < row_panels * kInt8PanelRows; ++j) {
    const int8_t* row =
        rows + j / kInt8PanelRows * kInt8PanelRows * units * kGroup + j % kInt8PanelRows * kGroup;
    for (size_t i = 0; i < query_panels * kInt8PanelQueries; ++i) {
      const int8_t* query = queries + i / kInt8PanelQueries * kInt8PanelQueries * units * kGroup +
                            i % kInt8PanelQueries * kGroup;
      int32_t sum = 0;
      for (size_t u = 0; u < units; ++u) {
        for (size_t e = 0; e < kGroup; ++e) {
          sum += query[u * kInt8PanelQueries * kGroup + e] * row[u * kInt8PanelRows * kGroup + e];
        }
      }
      const float score = bias[j] + query_scales[i] * row_scales[j] * static_cast<float>(sum);
      if (score >= thresholds[i]) {
        hits[found++] = {static_cast<uint32_t>(i), static_cast<uint32_t>(j), score};
      }
    }
  }
  return found;
}

}  // namespace

constinit const Int8Scan kScalarInt8Scan = {"scalar", Find};

}  // namespace dslide
