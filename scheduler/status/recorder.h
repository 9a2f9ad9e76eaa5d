// What a run leaves to be looked at: the files metrics.jsonl, loads.jsonl and examples.jsonl of its
// directory, and the history that the status page draws.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/checkpoint/manifest.h"
#include "common/log/event.h"
#include "common/text/preprocessor.h"
#include "scheduler/base/actions.h"
#include "scheduler/core/run_status.h"
#include "scheduler/status/history.h"
#include "scheduler/status/line_file.h"
#include "scheduler/status/progress.h"

namespace dslide {

// Names of labels: the preprocessor's, else those of train.label_names, else numbers.
class LabelNames {
 public:
  LabelNames() = default;
  // `preprocessor` may be null. A file of names that cannot be read is logged.
  LabelNames(std::shared_ptr<const Preprocessor> preprocessor, const Config& config);

  std::string Of(uint32_t label) const;
  Example Named(const EvaluatedSample& sample) const;

 private:
  std::shared_ptr<const Preprocessor> preprocessor_;
  std::vector<std::string> names_;  // by id
};

// Times are seconds since the start of the scheduler. Used by one thread.
class RunRecorder {
 public:
  // Opens the files, and goes on with those of an earlier life. state() says whether that worked.
  RunRecorder(const std::string& run_directory, const RunContext& run, LabelNames names);

  // Of the labels of the evaluations to come.
  void SetNames(LabelNames names) { names_ = std::move(names); }

  // Not ok: metrics.jsonl cannot be opened. Names the file.
  const Status& state() const { return metrics_.state(); }

  // Every few seconds of training: a line in each file; none in metrics.jsonl if no batch counted.
  // `own`: of the scheduler.
  void OnProgress(const RunStatus& status, const ProgressMeter::Reading& reading,
                  const ProcessUsage& own, double elapsed_s);
  // Every second, for the history.
  void OnReading(const RunStatus& status, const ProgressMeter::Reading& reading, double elapsed_s);
  void OnEvent(const Event& event, double elapsed_s);
  // Records the loss of a server with slots, which stopped training.
  void OnLost(const std::string& server, double elapsed_s);
  // The record of an epoch is that of its evaluation.
  void OnEpoch(const Event& event, double elapsed_s) { history_.AddEvent({elapsed_s, event}); }
  const std::deque<RunEvent>& events() const { return history_.events(); }
  void OnEvaluation(const EvaluationResult& result, const Event& event, double elapsed_s);
  // The last samples of that evaluation.
  void OnExamples(const std::vector<EvaluatedSample>& samples);
  void OnCheckpoint(const Manifest& manifest);
  // Others than the oldest may have gone from the directory of checkpoints.
  void OnRemoved(const std::string& checkpoints);

  // The body of /api/history.
  std::string HistoryText() const;

 private:
  std::string directory_;
  size_t kept_checkpoints_;
  LabelNames names_;
  LineFile metrics_, loads_;
  RunHistory history_;
};

}  // namespace dslide
