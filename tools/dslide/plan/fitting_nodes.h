// Which nodes hold a model, and which of them still make training faster. Pure, as the cost model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/dslide/plan/cost_model.h"

namespace dslide {

// Nodes that would do in place of those given, and why these do not; "" if they do. One line that
// names the thing and the mend.
std::string WhyItDoesNotFit(const PlanInput& input);

// EstimateRun() with the first nodes of `input.nodes`, and beyond them more of the last.
struct NodesRow {
  uint32_t nodes = 0;
  double samples_per_second = 0;
  double efficiency = 0;  // of the speed of the fewest nodes, times as many
  double gain = 0;        // of the last node added, as a share
  std::string bottleneck;
};

// From the fewest nodes that hold the model, until a further node gains less than `least_gain`, and
// at least up to those given. At most `most` nodes, and kMostPlannedProcesses on them.
std::vector<NodesRow> EstimateNodes(const PlanInput& input, double least_gain, uint32_t most);

}  // namespace dslide
