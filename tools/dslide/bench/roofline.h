// The best rates of this machine, to compare the engine's figures with.
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace dslide {

struct Roofline {
  double random_row_bandwidth;  // bytes/s, read and written together
  double matrix_rate;           // floating-point operations/s, an FMA is two
};

// Measures with `threads` threads at once, about 0.3 s in all:
//  - random rows of `row_bytes` of a table of `rows` rows in huge pages, each read, changed and
//    written once, with prefetching;
//  - the product kernels of that precision on operands that stay in the second-level cache.
Roofline MeasureRoofline(uint32_t threads, uint64_t rows, uint32_t row_bytes, Products products);

}  // namespace dslide
