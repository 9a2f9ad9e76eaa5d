// What the measures of a ranking are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dslide {

// What a hit at 0-based `rank` adds to the discounted cumulative gain.
inline double Discount(size_t rank) { return 1.0 / std::log2(static_cast<double>(rank) + 2.0); }

// Whether `id` is among `ascending`.
inline bool Contains(std::span<const uint32_t> ascending, uint32_t id) {
  return std::binary_search(ascending.begin(), ascending.end(), id);
}

// part / whole, or 0 where there is no whole.
inline double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace dslide
