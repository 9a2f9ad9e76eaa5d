// Configurations and batches for tests of a server's parts.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

// A resolved configuration without schedule, dropout or hashing; fp32 on the wire.
Config SmallConfig(uint32_t features, uint32_t labels, uint32_t hidden);

// The same with weights, moments, products and the wire in bf16.
Config InBf16(Config config);

std::vector<SlotId> AllSlots(const Config& config);

// Samples with ascending random features and 0 to `most_labels` labels.
LeaseBatch RandomBatch(const Config& config, uint32_t samples, uint32_t most_labels,
                       Random* random);

}  // namespace dslide
