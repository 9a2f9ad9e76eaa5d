// The content of the status page, made from the scheduler's state.
#pragma once

#include <string>

#include "scheduler/core/scheduler_core.h"
#include "scheduler/status/learning_curve.h"
#include "scheduler/status/progress.h"

namespace dslide {

// The body of /api/status. `curve`: since this scheduler started.
std::string StatusJson(const SchedulerCore& core, const ProgressMeter::Reading& reading,
                       const LearningCurve& curve, const std::string& line, int64_t now_ms);

// A line of loads.jsonl: the load of each server.
std::string LoadsRecord(const SchedulerCore& core, double elapsed_s);

// The body of /metrics, in Prometheus' text format; names start with dslide_.
std::string PrometheusText(const SchedulerCore& core, const ProgressMeter::Reading& reading);

}  // namespace dslide
