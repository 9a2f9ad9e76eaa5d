// The content of the status page, made from the run's status.
#pragma once

#include <span>
#include <string>

#include "scheduler/core/run_status.h"
#include "scheduler/ledger/contributions.h"
#include "scheduler/status/learning_curve.h"
#include "scheduler/status/progress.h"

namespace dslide {

// The body of /api/status. `curve`: since this scheduler started. `contributions`: the greatest
// first; kMostContributions of them are in it.
constexpr size_t kMostContributions = 100;
std::string StatusJson(const RunStatus& status, const ProgressMeter::Reading& reading,
                       const LearningCurve& curve, const std::string& line,
                       std::span<const Contributions::Total> contributions = {},
                       int64_t time_s = 0);

// A line of loads.jsonl: the load of each server.
std::string LoadsRecord(const RunStatus& status, double elapsed_s);

}  // namespace dslide
