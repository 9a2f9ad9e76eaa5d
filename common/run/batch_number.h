// The number of a batch within its pass over the data, its place in a work unit, and its name:
//
//   number = unit * train.unit_batches + index
#pragma once

#include <cstdint>
#include <string>

#include "common/base/ids.h"

namespace dslide {

inline uint64_t NumberInPass(uint32_t unit, uint32_t index, uint32_t unit_batches) {
  return uint64_t{unit} * unit_batches + index;
}

struct UnitPlace {
  uint32_t unit = 0;
  uint32_t index = 0;
};
inline UnitPlace PlaceInUnit(uint64_t number, uint32_t unit_batches) {
  return {static_cast<uint32_t>(number / unit_batches),
          static_cast<uint32_t>(number % unit_batches)};
}

// For messages: "batch 0.3.1" is batch 1 of unit 3 of epoch 0.
std::string NameOf(const BatchId& batch);

}  // namespace dslide
