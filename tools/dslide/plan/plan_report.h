// What `dslide plan` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/dslide/plan/cost_model.h"
#include "tools/dslide/plan/fitting_nodes.h"

namespace dslide {

struct PlanReport {
  const PlanInput* input = nullptr;
  PlanEstimate estimate;
  std::vector<NodesRow> rows;   // none: the plan is for this machine
  std::optional<double> price;  // of a node for an hour
  std::string data;             // for people: where the sizes are from
};

std::string PlanText(const PlanReport& report);
std::string PlanJson(const PlanReport& report);

}  // namespace dslide
