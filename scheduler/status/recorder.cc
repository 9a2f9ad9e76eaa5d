#include "scheduler/status/recorder.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/data/whole_file.h"
#include "common/data/xc_reader.h"
#include "common/log/log.h"
#include "scheduler/base/events.h"
#include "scheduler/status/status.h"
#include "scheduler/status/summary.h"

namespace dslide {

LabelNames::LabelNames(std::shared_ptr<const Preprocessor> preprocessor, const Config& config)
    : preprocessor_(std::move(preprocessor)) {
  if (preprocessor_ != nullptr || config.train.label_names.empty()) return;
  auto names = ReadLabelNames(config.train.label_names, config.model.labels);
  if (names.ok()) {
    names_ = std::move(*names);
  } else {
    LogWarning({event::kRecordsFailed,
                names.error().message + "; the status page shows labels by number"});
  }
}

std::string LabelNames::Of(uint32_t label) const {
  if (preprocessor_ != nullptr) return preprocessor_->LabelName(label);
  const bool named = label < names_.size() && !names_[label].empty();
  return named ? names_[label] : std::to_string(label);
}

Example LabelNames::Named(const EvaluatedSample& sample) const {
  Example example;
  example.number = sample.number + 1;
  for (const uint32_t label : sample.labels) example.labels.push_back(Of(label));
  for (const uint32_t label : sample.predicted) example.predicted.push_back(Of(label));
  return example;
}

RunRecorder::RunRecorder(const std::string& run_directory, const RunContext& run, LabelNames names)
    : directory_(run_directory),
      kept_checkpoints_(run.config.checkpoint.keep),
      names_(std::move(names)),
      metrics_(run_directory + "/metrics.jsonl"),
      loads_(run_directory + "/loads.jsonl"),
      history_(FactsOf(run, run_directory)) {
  history_.SetCheckpoints(CheckpointsIn(run.checkpoint_directory));
  metrics_.Append(StartRecord(run, WallClockSeconds()));
}

void RunRecorder::OnProgress(const RunStatus& status, const ProgressMeter::Reading& reading,
                             const ProcessUsage& own, double elapsed_s) {
  if (reading.recent.samples > 0) {
    metrics_.Append(ProgressRecord(reading, status, own, elapsed_s));
  }
  loads_.Append(LoadsRecord(status, elapsed_s));
}

void RunRecorder::OnReading(const RunStatus& status, const ProgressMeter::Reading& reading,
                            double elapsed_s) {
  if (reading.recent.samples == 0) return;
  history_.Add(PointOf(reading, elapsed_s));
  history_.Add(LoadsOf(status, elapsed_s));
}

void RunRecorder::OnEvent(const Event& event, double elapsed_s) {
  history_.AddEvent({elapsed_s, event});
  metrics_.Append(NoticeRecord(event, elapsed_s));
}

void RunRecorder::OnLost(const std::string& server, double elapsed_s) {
  history_.AddLoss({elapsed_s, server});
  metrics_.Append(LostRecord(server, elapsed_s));
}

void RunRecorder::OnEvaluation(const EvaluationResult& result, const Event& event,
                               double elapsed_s) {
  const EvaluationPoint point{elapsed_s, static_cast<double>(result.epoch), result.metrics};
  if (result.set == EvaluationSet::kHeldOut) {
    history_.AddHeldOut(point);
  } else {
    history_.Add(point);
  }
  history_.AddEvent({elapsed_s, event});
  metrics_.Append(EvaluationRecord(result, elapsed_s));
}

void RunRecorder::OnExamples(const std::vector<EvaluatedSample>& samples) {
  std::vector<Example> examples;
  for (const EvaluatedSample& sample : samples) examples.push_back(names_.Named(sample));
  const Status written = WriteWholeFile(directory_ + "/examples.jsonl", ExampleLines(examples));
  if (!written.ok()) LogWarning({event::kRecordsFailed, written.error().message});
  history_.SetExamples(std::move(examples));
}

void RunRecorder::OnCheckpoint(const Manifest& manifest) {
  history_.AddCheckpoint(CheckpointOf(manifest), kept_checkpoints_);
}

void RunRecorder::OnRemoved(const std::string& checkpoints) {
  history_.SetCheckpoints(CheckpointsIn(checkpoints));
}

std::string RunRecorder::HistoryText() const { return TextOf(history_.Json(WallClockSeconds())); }

}  // namespace dslide
