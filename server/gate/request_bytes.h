// What a request is about, and what it takes in memory while it is kept.
#pragma once

#include <cstdint>
#include <optional>

#include "common/wire/messages.h"

namespace dslide {

// The batch that a request trains, or greets a server with; none: it is about none.
std::optional<BatchId> BatchOf(const Body& request);

// Of the body and the numbers in it; of messages that are no requests of workers, the body alone.
// Above 0.
uint64_t BytesInMemory(const Body& request);

// What a worker may have waiting at a server: the activations of all its batches in flight, twice,
// and the features of some. A sample has kMostFeaturesOfSample features at most, in the mean over a
// batch.
constexpr uint64_t kMostFeaturesOfSample = 16384;
uint64_t MostWaitingBytes(const Config& config);

// What the activations of a batch take in an executor.
uint64_t MostBytesOfBatch(const Config& config);

}  // namespace dslide
