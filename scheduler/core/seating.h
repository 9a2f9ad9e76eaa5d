// Members that come and go, and the seats of the plan.
#pragma once

#include <cstdint>

#include "common/wire/messages.h"
#include "scheduler/core/run_state.h"

namespace dslide {

// `reached`: the scheduler has reached the member at the address that it advertises.
void OnJoin(RunState* run, const PeerId& from, const Message& message, bool reached,
            int64_t now_ms);
void OnReady(RunState* run, Member* member, const Ready& ready, int64_t now_ms);

// Takes the silent for dead, of very many workers some on each tick, and leaves servers out that
// the workers cannot reach.
void TendMembers(RunState* run, int64_t now_ms);

// Fills vacant seats, and lets the pass go on once every seat has a server that is ready.
void TendSeats(RunState* run, int64_t now_ms);

}  // namespace dslide
