// Whether a server that wants to join has memory enough for its part of the model.
#pragma once

#include <string>

#include "common/config/config.h"
#include "common/wire/messages.h"
#include "scheduler/members/roster.h"

namespace dslide {

// Why the server cannot take part: it has no room for a slot, or it is the last one that the run
// waits for, and all together have too little. Empty: it can. `live`: the run has its servers.
std::string WhyTooSmall(const Join& join, const Config& config, const Roster& roster, bool live);

}  // namespace dslide
