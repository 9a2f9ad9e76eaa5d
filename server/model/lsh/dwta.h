// Densified winner-take-all hashing. See hash_family.h.
#pragma once

#include <cstdint>
#include <memory>

#include "common/math/kernels.h"
#include "server/model/lsh/hash_family.h"

namespace dslide {

// REQUIRES bin is a power of two in [2, 16], dim < 65536 and k * log2(bin) <= kMaxCodeBits.
std::unique_ptr<HashFunctions> MakeDwta(const HashConfig& config, uint32_t dim, uint64_t seed,
                                        const Kernels& kernels);

}  // namespace dslide
