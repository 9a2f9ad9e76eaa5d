// Neurons in groups of similar weights, by k-means (Lloyd: "Least squares quantization in PCM",
// IEEE Transactions on Information Theory 28, 1982) over the vectors (w, b). The groups are the
// cells of an inverted file (Sivic and Zisserman: "Video Google", ICCV 2003; Jegou, Douze, Schmid:
// "Product Quantization for Nearest Neighbor Search", PAMI 2011, section IV).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/math/kernels.h"

namespace dslide {

struct Cells {
  std::vector<uint32_t> cell_of;  // [N]
  std::vector<float> means;       // [C x H] of the cells' weights
  std::vector<float> biases;      // [C]
};

// The weights of neurons [begin, end), [(end - begin) x H], valid until the thread's next call.
using ReadRows = std::function<const float*(uint32_t begin, uint32_t end, std::vector<float>*)>;

// Puts N > 0 neurons into at most `count` cells, none of which is empty. `bias`: [N]. The same
// input gives the same cells, whatever the number of threads. Rows are read by all threads.
Cells MakeCells(uint32_t neurons, uint32_t dim, const ReadRows& rows, std::span<const float> bias,
                uint32_t count, size_t threads, const Kernels& kernels);

}  // namespace dslide
