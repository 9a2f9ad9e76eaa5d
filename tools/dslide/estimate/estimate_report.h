// The output of `dslide estimate`.
#pragma once

#include <optional>
#include <string>

#include "tools/dslide/estimate/estimate.h"

namespace dslide {

struct EstimateReport {
  EstimatedTask task;
  Machines machines;
  ExactFigures exact;
  std::string not_measured;  // the reason, without a measured run
  std::optional<MeasuredRun> run;
  std::optional<Estimate> estimate;  // with `run`
};

std::string EstimateText(const EstimateReport& report);
std::string EstimateJson(const EstimateReport& report);

}  // namespace dslide
