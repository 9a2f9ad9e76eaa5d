// Signed random projections. See hash_family.h.
#pragma once

#include <cstdint>
#include <memory>

#include "common/math/kernels.h"
#include "server/model/lsh/hash_family.h"

namespace dslide {

// REQUIRES k <= kMaxCodeBits.
std::unique_ptr<HashFunctions> MakeSimHash(const HashConfig& config, uint32_t dim, uint64_t seed,
                                           const Kernels& kernels);

}  // namespace dslide
