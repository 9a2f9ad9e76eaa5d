// What a request takes in memory while it is kept.
#pragma once

#include <cstdint>

#include "common/wire/messages.h"

namespace dslide {

// Of the body and the numbers in it; of messages that are no requests of workers, the body alone.
// Above 0.
uint64_t BytesInMemory(const Body& request);

// What a worker may have waiting at a server: its largest request, beside smaller ones of other
// batches. A sample has kMostFeaturesOfSample features at most, in the mean over a batch.
constexpr uint64_t kMostFeaturesOfSample = 16384;
uint64_t MostWaitingBytes(const Config& config);

}  // namespace dslide
