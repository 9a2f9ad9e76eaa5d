// A switch: a slot map that continues a generation comes into force.
#pragma once

#include <cstdint>

#include "common/wire/messages.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// All members get `next`, a plan of the present generation.
void SwitchTo(RunState* run, Plan next, int64_t now_ms);

// A server has the slots of the plan. `ready`: what it says of its copying.
void OnTakenUp(RunState* run, const Ready& ready, int64_t now_ms);

}  // namespace dslide
