// Changes of plan while training goes on: slots move, servers join the plan and leave it.
//
// Slots go in waves (Balancer). A wave that is small is copied during the plan switch, while
// requests wait. A larger one is copied in the background before, and only what changed meanwhile
// follows with the plan (PlanChange).
#pragma once

#include <cstdint>
#include <string>

#include "common/wire/messages.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// Takes the change of plan that is under way one step on, or looks whether one is wanted.
void TendPlan(RunState* run, int64_t now_ms);

// `asking` wants a server to leave: its slots move to the others.
void OnDrain(RunState* run, Member* asking, const DrainServer& drain, const Message& message,
             int64_t now_ms);

}  // namespace dslide
