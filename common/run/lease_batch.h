// A batch of an order as a lease names it, with its samples or by numbers only.
#pragma once

#include "common/data/data_order.h"
#include "common/wire/messages.h"

namespace dslide {

// Batch number `number` of `order`, numbered within its unit as `index`.
// REQUIRES number < order.batches().
LeaseBatch BatchWithSamples(const DataOrder& order, uint64_t number, uint32_t index);
LeaseBatch BatchByNumbers(const DataOrder& order, uint64_t number, uint32_t index);

}  // namespace dslide
