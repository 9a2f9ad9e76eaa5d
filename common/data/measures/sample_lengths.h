// The lengths of samples: L2 norms of their values.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/data/dataset.h"

namespace dslide {

struct LengthSpread {
  float least = 0;
  float median = 0;  // the lower middle one if the number of samples is even
  float most = 0;
};

// Samples without values other than 0 are not counted. Memory: 4 bytes a sample.
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

// The median length of a training file's samples; 1 for samples that are drawn while training, and
// for an empty file.
float MedianLength(const Dataset& train);

}  // namespace dslide
