// How often each batch has changed the weights of each slot, counted by looking at the weights.
//
// Independent of the executors' own records: these counts show a batch that is applied twice, or
// whose application a restore forgets. They go with the rows into checkpoints and back.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "common/base/ids.h"
#include "server/rows/layer.h"

namespace dslide::sim {

// A slot's rows in one layer.
using PartKey = std::pair<LayerKind, SlotId>;
// How often each batch (number in the run) changed the rows of a part.
using BatchCounts = std::map<uint64_t, uint32_t>;

using AppliedShadow = std::map<PartKey, BatchCounts>;

}  // namespace dslide::sim
