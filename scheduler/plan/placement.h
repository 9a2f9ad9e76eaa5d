// Who gets a seat and which slots in a plan that begins a generation. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/wire/messages.h"
#include "scheduler/balance/slot_loads.h"
#include "scheduler/members/roster.h"

namespace dslide {

// A server of the next plan. `server` is the roster's.
struct SeatedServer {
  const Member* server;
  std::optional<size_t> seat;  // in the plan before: its own, or that of a server that it replaces
};

// Servers that have a seat in `plan` keep it, spares take the vacant seats, first those who ask for
// the name that is gone. More spares follow until there are `wanted` servers.
// `newcomers_rest`: a spare comes in only where there are fewer than `wanted` servers without it.
std::vector<SeatedServer> ChooseServers(const Plan& plan, const Roster& roster, size_t wanted,
                                        bool newcomers_rest);

// Whether so many servers go on at once when others of `plan` are gone: of more servers than the
// run asks for it can do without some, of fewer it needs all.
bool AreEnough(size_t servers, const Plan& plan, size_t wanted);

// For the first plan: the spares, by name, so that a cluster that starts again with the same names
// has the same slots. At most `wanted` of them.
std::vector<SeatedServer> ChooseFirstServers(const Roster& roster, size_t wanted);

struct Placement {
  std::vector<uint16_t> slot_owner;  // [V] index into the servers
  uint64_t lacking_bytes = 0;        // of memory: some servers have more than they may use
};

// Who gets which of `slots` slots in a plan that begins at the checkpoint (null: at the beginning):
// who wrote a slot there, for the shard may lie on that server's own disk; else who has its seat of
// `before`. What is left is shared by capacity and memory, or equally where there was no plan.
// REQUIRES servers not empty.
Placement Place(const std::vector<SeatedServer>& servers, const Plan& before,
                const Manifest* checkpoint, const SlotLoads& loads, uint32_t slots);

}  // namespace dslide
