// Writes samples in the Extreme Classification Repository's format (common/data/xc_reader.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/base/error.h"
#include "tools/python/module/predictor.h"

namespace dslide {

// `label_offsets`: [n + 1]; the labels of sample i are labels[label_offsets[i], label_offsets[i +
// 1]). Errors name the file, or what does not fit.
Status WriteNumberFile(const std::string& path, const NumberRows& rows,
                       std::span<const int64_t> label_offsets, std::span<const int32_t> labels,
                       uint32_t num_features, uint32_t num_labels);

// Whether the arrays of rows fit each other: offsets begin with 0, ascend and end with the number
// of ids.
Status CheckRows(std::span<const int64_t> offsets, size_t ids);

}  // namespace dslide
