// Shows a run while it lasts: on the terminal, in the run directory's records, on the status page.
//
// The run directory gets what RunRecorder writes, totals.json and summary.json. Used by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/checkpoint/manifest.h"
#include "common/log/event.h"
#include "scheduler/access_control.h"
#include "scheduler/base/actions.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/ledger/contributions.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/status/learning_curve.h"
#include "scheduler/status/progress.h"
#include "scheduler/status/prometheus_text.h"
#include "scheduler/status/recorder.h"
#include "scheduler/status/run_costs.h"
#include "scheduler/status/status.h"
#include "scheduler/status/status_pace.h"
#include "scheduler/status/status_page.h"
#include "scheduler/terminal.h"

namespace dslide {

class RunReporter {
 public:
  // What is shown, and where. All outlives the reporter.
  struct Parts {
    const SchedulerCore* core;
    const Ledger* ledger;
    const AccessControl* access;  // null: members have no keys
    AwakeClock* clock;
    Terminal* terminal;
    StatusPage* page;  // null: none
  };

  // `earlier`, `contributions`: of the lives before this one.
  RunReporter(const std::string& run_directory, const Parts& parts, LabelNames names,
              RunCosts earlier, Contributions contributions);

  // Not ok: metrics.jsonl cannot be opened. Names the file.
  const Status& state() const { return recorder_.state(); }
  // Writes the costs at once, so that a life that is soon killed leaves them.
  // `notes`: the lines about the data that were shown to people; each becomes an event of the run.
  void Begin(const std::vector<std::string>& notes);
  // Shows what is due: progress, records, the status page.
  void Tick();
  // Writes summary.json. If the run has succeeded, writes the chosen settings to its config.ini,
  // which then trains the same model again.
  Status WriteSummary();

  // JSON, not older than StatusPace has it.
  const std::string& RecentStatus();

  // Logs an event of the run and records it; Notice() prints it, too.
  void Notice(const Event& event);
  void Warning(const Event& event);

  void OnLost(const std::string& server) { recorder_.OnLost(server, ElapsedSeconds()); }
  void OnEpoch(uint32_t epochs_trained);
  void OnEvaluation(const EvaluationResult& result);
  void OnExamples(const std::vector<EvaluatedSample>& samples) { recorder_.OnExamples(samples); }
  void OnCheckpoint(const Manifest& manifest) { recorder_.OnCheckpoint(manifest); }
  // Others than the oldest may have gone from the directory of checkpoints.
  void OnCheckpointsRemoved() { recorder_.OnRemoved(parts_.core->run().checkpoint_directory); }
  void OnCounted(const LedgerCounted& counted);
  void SetNames(LabelNames names) { recorder_.SetNames(std::move(names)); }
  void SetHook(const CheckpointHook::Figures& figures) { care_.hook = figures; }
  // Why no checkpoints are written now; "": they are.
  void SetProblem(const std::string& why);

 private:
  void Record(const Event& event);
  void ShowProgress(int64_t now_ms);
  void RecordProgress(int64_t now_ms);
  void PublishStatus(int64_t now_ms);
  // For those who ask, and for the page.
  void MakeStatus(int64_t now_ms);
  void MakeStatusText(const RunStatus& status);
  RunCosts WriteCosts(const RunStatus& status);
  double ElapsedSeconds() const;

  std::string directory_;
  Parts parts_;
  int64_t started_ms_;
  int64_t shown_ms_ = 0;
  std::string shown_;  // the last line of progress
  int64_t recorded_ms_ = 0;
  int64_t history_published_ms_ = 0;
  ProgressMeter meter_;         // of the progress line
  ProgressMeter record_meter_;  // of metrics.jsonl
  ProgressMeter page_meter_;    // of the status page
  ProgressMeter::Reading page_reading_;
  int64_t page_read_ms_ = 0;
  StatusPace pace_;
  std::string status_text_;  // JSON, the last one
  LearningCurve curve_;
  RunRecorder recorder_;
  CostMeter costs_;
  bool costs_written_ = true;
  Contributions contributions_;  // of all entries of the ledger
  CheckpointCare care_;
  EventCounts event_counts_;
};

}  // namespace dslide
