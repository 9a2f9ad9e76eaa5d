// The servers of a plan, as the roster knows them. Results are in the order of plan.servers.
#pragma once

#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "scheduler/members/roster.h"

namespace dslide {

std::vector<Incarnation> IncarnationsOf(const Plan& plan);
// [plan.servers] Whether the server's slots are to move to others.
std::vector<bool> LeavingServers(const Plan& plan, const Roster& roster);

}  // namespace dslide
