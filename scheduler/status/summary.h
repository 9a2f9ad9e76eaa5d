// The records of a run: one JSON object per line in metrics.jsonl, and summary.json at its end.
#pragma once

#include <string>

#include "scheduler/core/run_status.h"
#include "scheduler/status/progress.h"

namespace dslide {

// Lines of metrics.jsonl, without the line end. `elapsed_s` counts from the start of the scheduler,
// which is a line too; `time`: seconds since 1970.
std::string StartRecord(const RunContext& run, double time);
std::string NoticeRecord(const std::string& text, double elapsed_s);
std::string ProgressRecord(const ProgressMeter::Reading& reading, double elapsed_s);
std::string EvaluationRecord(const EvaluationResult& result, double elapsed_s);

// summary.json. `own_cpu_seconds` and `own_rss_bytes` are the scheduler's; the members' are in the
// status.
std::string SummaryJson(const RunStatus& status, double own_cpu_seconds, uint64_t own_rss_bytes);

}  // namespace dslide
