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

// All members get `next`, a plan of the present generation.
void SwitchTo(RunState* run, Plan next, int64_t now_ms);

// A server has the slots of the plan. `ready`: what it says of its copying.
void OnTakenUp(RunState* run, const Ready& ready, int64_t now_ms);

// `asking` wants a server to leave: its slots move to the others.
void OnDrain(RunState* run, Member* asking, const DrainServer& drain, const Message& message,
             int64_t now_ms);

// What servers hold of steps that are not committed does not count, and is trained again under a
// plan of the same generation. Where servers may have missed a commit all go back to the newest
// checkpoint.
void TakeStepsBack(RunState* run, int64_t now_ms);

// Servers and what counts go back to the newest checkpoint, with the servers that there are.
void GoBack(RunState* run, int64_t now_ms);

}  // namespace dslide
