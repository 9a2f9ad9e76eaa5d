// The records of a run: one JSON object per line in metrics.jsonl, and summary.json at its end.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/base/process.h"
#include "common/log/event.h"
#include "scheduler/core/run_status.h"
#include "scheduler/status/progress.h"
#include "scheduler/status/run_costs.h"

namespace dslide {

// Lines of metrics.jsonl, without the line end. `elapsed_s` counts from the start of the scheduler,
// which is a line too; `time`: seconds since 1970.
std::string StartRecord(const RunContext& run, double time);
std::string NoticeRecord(const Event& event, double elapsed_s);
std::string LostRecord(const std::string& server, double elapsed_s);
// `own`: of the scheduler.
std::string ProgressRecord(const ProgressMeter::Reading& reading, const RunStatus& status,
                           const ProcessUsage& own, double elapsed_s);
// The same for people.
Event EvaluationEvent(const EvaluationResult& result, bool is_stream);
// An event `evaluation`, or `held_out`.
std::string EvaluationRecord(const EvaluationResult& result, double elapsed_s);

// What a run has cost, as summary.json has it. whole_run: false if an earlier life of the scheduler
// left no totals; the figures are those of the later lives then.
void AddCosts(const RunCosts& costs, nlohmann::ordered_json* json);

// How audits have ended, if the run has some.
void AddAudits(const RunStatus& status, nlohmann::ordered_json* json);

// summary.json.
std::string SummaryJson(const RunStatus& status, const RunCosts& costs, const ProcessUsage& own);

}  // namespace dslide
