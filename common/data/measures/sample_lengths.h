// The lengths of samples: L2 norms of their values.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/data/dataset.h"

namespace dslide {

struct LengthSpread {
  float least = 0;
  float median = 0;  // of an even number the lower one of the two in the middle
  float most = 0;
};

// Samples that have only zeros, or nothing, do not count. Takes 4 bytes a sample.
class SampleLengths {
 public:
  SampleLengths() = default;
  // REQUIRES stored samples.
  explicit SampleLengths(const Dataset& data);

  void Add(std::span<const float> values);
  bool empty() const { return lengths_.empty(); }
  // REQUIRES !empty().
  LengthSpread Spread() const;

 private:
  std::vector<float> lengths_;
};

// The median of a training file's samples; 1 of samples that are drawn, and of none.
float MedianLength(const Dataset& train);

}  // namespace dslide
