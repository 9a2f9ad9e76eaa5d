// The median of a few measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace dslide {

// The upper one of an even number of values. REQUIRES that there is a value.
inline double Median(std::vector<double> values) {
  DSLIDE_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace dslide
