// Floats that are no numbers.
#pragma once

#include <limits>

namespace dslide {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace dslide
