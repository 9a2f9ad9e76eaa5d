// The servers of planned nodes, and what they hold by the first slot plan.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/config.h"
#include "tools/dslide/plan/cost_model.h"
#include "tools/dslide/plan/nodes.h"
#include "tools/dslide/plan/wire_bytes.h"

namespace dslide {

inline constexpr double kMb = 1024.0 * 1024.0;

struct PlannedServer {
  uint32_t node = 0;
  uint32_t executors = 1;
  ServerPart part;
  uint64_t slot_bytes = 0;
};

uint32_t ServersOf(const std::vector<PlannedNode>& nodes);
uint32_t WorkersOf(const std::vector<PlannedNode>& nodes);
// Of each server on this node.
uint32_t ExecutorsOn(const PlannedNode& node, const Config& config);

// What one server on this node may use for rows and tables.
double AllowedBytes(const PlannedNode& node, const Config& config);

// In equal ranges of slots, as the first plan has them.
std::vector<PlannedServer> PlanServers(const PlanInput& input);

}  // namespace dslide
