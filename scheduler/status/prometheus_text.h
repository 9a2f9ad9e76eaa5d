// The figures of a run for Prometheus.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "scheduler/core/run_status.h"
#include "scheduler/status/progress.h"
#include "scheduler/status/status.h"

namespace dslide {

// Recorded notices and decisions of this scheduler since it started, by code.
using EventCounts = std::map<std::string_view, uint64_t>;

// The body of /metrics, in Prometheus' text format. Names start with dslide_ and end with the unit,
// or with _total if they only grow; a scheduler that starts again begins at 0 with those that say
// so. configs/prometheus has rules and a dashboard that use them.
std::string PrometheusText(const RunStatus& status, const ProgressMeter::Reading& reading,
                           const CheckpointCare& checkpoints = {}, const EventCounts& events = {});

}  // namespace dslide
