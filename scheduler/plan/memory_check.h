// Whether a server that wants to join has memory enough for its part of the model.
#pragma once

#include <cstdint>
#include <string>

#include "common/config/config.h"
#include "common/wire/messages.h"
#include "scheduler/members/roster.h"

namespace dslide {

// Why the server cannot take part: it has no room for a slot, or it is the last one that the run
// waits for, and all together have too little. Empty: it can. `live`: the run has its servers.
std::string WhyTooSmall(const Join& join, const Config& config, const Roster& roster, bool live);

// The same of a cluster of cluster.servers servers that may use `memory_bytes` each.
std::string WhyAllTooSmall(uint64_t memory_bytes, const Config& config);

}  // namespace dslide
