// Limits of the configuration that more than one file needs, and how they are related.
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace dslide {

// model.active = auto: up to so many labels every neuron is computed, which is exact and no dearer
// than an active set of the default size.
inline constexpr uint32_t kMaxLabelsForAll = 2000;

// hash.k = 0: a bucket shall hold so many neurons in the mean. Fewer, and most look-ups of a new
// sample find nothing (DESIGN.md section 3).
inline constexpr uint32_t kMinBucketNeurons = 24;

// A table has 2^(K * bits a hash) buckets, and at most 2^24: its offsets take 64 MB.
inline constexpr uint32_t kMaxBucketBits = 24;

// Bits of a bucket's index that one hash gives. REQUIRES hash.bin to be a power of two.
uint32_t BitsPerHash(const HashConfig& hash);

}  // namespace dslide
