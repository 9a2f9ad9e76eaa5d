// A data set whose samples can be told apart.
#pragma once

#include "common/data/dataset.h"

namespace dslide {

// Samples whose feature is their own number, so that a batch tells which samples it holds.
inline Dataset NumberedSamples(uint32_t count, uint32_t labels) {
  Dataset data(count, labels);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t label = i % labels;
    const float value = 1.0f;
    data.Add({{&label, 1}, {&i, 1}, {&value, 1}});
  }
  return data;
}

}  // namespace dslide
