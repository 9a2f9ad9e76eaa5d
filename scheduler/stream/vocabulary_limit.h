// How far the labels and words of a stream may grow.
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "common/text/open_vocabulary.h"

namespace dslide {

// What the labels and words of a stream may take: train.vocabulary_mb, or three quarters of the
// memory of cluster.servers servers. REQUIRES a resolved configuration. `server_memory_mb`: of each
// of them; 0: cluster.memory_mb, or that they are alone on a machine like this one.
OpenVocabulary::Limit VocabularyLimit(const Config& config, uint32_t server_memory_mb,
                                      uint64_t machine_bytes);

}  // namespace dslide
