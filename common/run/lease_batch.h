// A data order's batches in leases: with their samples, or by numbers only.
#pragma once

#include "common/data/data_order.h"
#include "common/wire/messages.h"

namespace dslide {

// Batch `number` of `order`, which is batch `index` of its work unit.
// REQUIRES number < order.batches().
LeaseBatch BatchWithSamples(const DataOrder& order, uint64_t number, uint32_t index);
LeaseBatch BatchByNumbers(const DataOrder& order, uint64_t number, uint32_t index);

}  // namespace dslide
