// Limits of the configuration that more than one file needs, and how they are related.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/config/config.h"

namespace dslide {

// model.active = auto: up to so many labels every neuron is computed, which is exact and no dearer
// than an active set of the default size.
inline constexpr uint32_t kMaxLabelsForAll = 2000;

// hash.k = 0: a bucket shall hold at least so many neurons in the mean. gnd-tibkat lost nothing
// from 80 to 10 a bucket, at 20 % less work; linux-calls 0.2 points of P@1 from 50 to 6.
inline constexpr uint32_t kMinBucketNeurons = 8;

// A table has 2^(K * bits a hash) buckets. Codes are stored in 16 bits, one of which is kept for
// "in no bucket": 32,768 buckets hold dozens of a million neurons each.
inline constexpr uint32_t kMaxCodeBits = 15;

// How many tables agree on a candidate is counted in a byte.
inline constexpr uint32_t kMaxTables = 255;

// The largest train.batches_in_flight: batches that a worker computes at once.
inline constexpr uint32_t kMostBatchesInFlight = 64;

// Requests that a worker may have open at a server (schema/PROTOCOL.md, section 10). A batch has
// one request open at each server. A batch whose gradients are pushed no longer counts as in
// flight, and a worker has at most one such batch for each batch in flight.
inline constexpr size_t kMostOpenRequests = 2 * size_t{kMostBatchesInFlight};

// Bits of a bucket's index that one hash gives. REQUIRES hash.bin to be a power of two.
uint32_t BitsPerHash(const HashConfig& hash);

}  // namespace dslide
