#include "scheduler/run_reporter.h"

#include <fmt/core.h>

#include <utility>

#include "common/app/executable.h"
#include "common/data/whole_file.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "scheduler/base/events.h"
#include "scheduler/status/summary.h"

namespace dslide {
namespace {

constexpr int64_t kTerminalMs = 1000;  // between progress lines on a terminal
constexpr int64_t kLogMs = 5000;       // elsewhere, and between roster lines
constexpr int64_t kRecordMs = 5000;    // between records, after the first minute, with one a second
constexpr int64_t kDenselyMs = 60'000;

}  // namespace

RunReporter::RunReporter(const std::string& run_directory, const Parts& parts, LabelNames names,
                         RunCosts earlier, Contributions contributions)
    : directory_(run_directory),
      parts_(parts),
      started_ms_(parts.clock->Millis()),
      recorder_(run_directory, parts.core->run(), std::move(names)),
      costs_(std::move(earlier)),
      contributions_(std::move(contributions)) {}

void RunReporter::Begin(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (!note.empty()) recorder_.OnEvent({event::kDataNote, note}, ElapsedSeconds());
  }
  WriteCosts(parts_.core->Describe(parts_.clock->Millis()));
}

void RunReporter::Tick() {
  const int64_t now_ms = parts_.clock->Millis();
  ShowProgress(now_ms);
  RecordProgress(now_ms);
  PublishStatus(now_ms);
}

void RunReporter::ShowProgress(int64_t now_ms) {
  const RunPhase phase = parts_.core->phase();
  const bool often = parts_.terminal->interactive() && phase == RunPhase::kTraining;
  if (now_ms - shown_ms_ < (often ? kTerminalMs : kLogMs)) return;
  shown_ms_ = now_ms;
  if (phase == RunPhase::kEvaluating) return;
  const RunStatus status = parts_.core->Describe(now_ms);
  const Event line = Waits(status) ? Event{event::kWaiting, status.waiting}
                                   : Event{event::kProgress, ProgressText(meter_.Sample(status))};
  if (!parts_.terminal->interactive() && line.text == shown_) return;
  parts_.terminal->Print(line, /*transient=*/true);
  shown_ = line.text;
}

void RunReporter::RecordProgress(int64_t now_ms) {
  const int64_t every_ms = now_ms - started_ms_ < kDenselyMs ? kTerminalMs : kRecordMs;
  if (parts_.core->phase() != RunPhase::kTraining || now_ms - recorded_ms_ < every_ms) return;
  recorded_ms_ = now_ms;
  const RunStatus status = parts_.core->Describe(now_ms);
  if (status.work.batches == 0) return;
  recorder_.OnProgress(status, record_meter_.Sample(status), UsageOfThisProcess(),
                       ElapsedSeconds());
  WriteCosts(status);
}

void RunReporter::PublishStatus(int64_t now_ms) {
  if (parts_.page == nullptr) return;
  if (pace_.Due(now_ms)) MakeStatus(now_ms);
  if (now_ms - history_published_ms_ < kTerminalMs) return;
  history_published_ms_ = now_ms;
  parts_.page->PublishHistory(recorder_.HistoryText());
}

const std::string& RunReporter::RecentStatus() {
  const int64_t now_ms = parts_.clock->Millis();
  if (pace_.Due(now_ms)) MakeStatus(now_ms);
  return status_text_;
}

void RunReporter::MakeStatus(int64_t now_ms) {
  const int64_t begun_ms = MonotonicMillis();
  const RunStatus status = parts_.core->Describe(now_ms);
  MakeStatusText(status);
  if (parts_.page != nullptr) {
    parts_.page->Publish(status_text_, PrometheusText(status, page_reading_, care_, event_counts_));
  }
  pace_.Made(now_ms, MonotonicMillis() - begun_ms);
}

void RunReporter::MakeStatusText(const RunStatus& status) {
  if (status.now_ms - page_read_ms_ >= kTerminalMs) {
    page_read_ms_ = status.now_ms;
    page_reading_ = page_meter_.Sample(status);
    recorder_.OnReading(status, page_reading_, ElapsedSeconds());
  }
  const auto contributions = contributions_.Totals(DayOf(SecondsSince1970()), kMostContributions);
  const AccessControl* access = parts_.access;
  status_text_ = StatusJson(
      status, page_reading_, curve_, Waits(status) ? status.waiting : ProgressText(page_reading_),
      {.contributions = contributions,
       .few_contributors = access != nullptr ? FewContributorsLine(contributions_) : "",
       .time_s = SecondsSince1970(),
       .events = &recorder_.events(),
       .checkpoints = &care_,
       .version = ProgramVersion(),
       .key_of =
           [access](Incarnation member) {
             const auto key = access != nullptr ? access->holder().KeyOf(member) : std::nullopt;
             return key ? TextOf(*key) : std::string();
           },
       .ledger_sync_us = parts_.ledger->sync_us()});
}

void RunReporter::Notice(const Event& event) {
  parts_.terminal->Announce(event);
  Record(event);
}

void RunReporter::Warning(const Event& event) {
  parts_.terminal->Warn(event);
  Record(event);
}

void RunReporter::Record(const Event& event) {
  event_counts_[event.kind->code]++;
  recorder_.OnEvent(event, ElapsedSeconds());
}

void RunReporter::OnEpoch(uint32_t epochs_trained) {
  const char* what = parts_.core->run().is_stream() ? "segment" : "epoch";
  const Event event{event::kEpochDone,
                    fmt::format("{} {} done", what, epochs_trained),
                    {{"epoch", epochs_trained}}};
  parts_.terminal->Log(event);
  recorder_.OnEpoch(event, ElapsedSeconds());
}

void RunReporter::OnEvaluation(const EvaluationResult& result) {
  if (result.set != EvaluationSet::kHeldOut) curve_.Add(result);
  const Event event = EvaluationEvent(result, parts_.core->run().is_stream());
  parts_.terminal->Print(event);
  recorder_.OnEvaluation(result, event, ElapsedSeconds());
}

void RunReporter::OnCounted(const LedgerCounted& counted) {
  contributions_.Add(ContributorOf(counted), counted.day, counted.samples);
}

void RunReporter::SetProblem(const std::string& why) {
  if (why.empty() != care_.problem.empty()) {
    Warning({event::kCheckpointRoom,
             why.empty() ? "there is room for checkpoints again" : why,
             {{"fits", why.empty()}}});
  }
  care_.problem = why;
}

// A scheduler that is killed leaves those of the last record.
RunCosts RunReporter::WriteCosts(const RunStatus& status) {
  RunCosts costs = costs_.Read(status, UsageOfThisProcess());
  const Status written = WriteWholeFile(directory_ + "/" + kTotalsName, FormatCosts(costs));
  if (!written.ok() && costs_written_) {
    parts_.terminal->Warn({event::kRecordsFailed, written.error().message});
  }
  costs_written_ = written.ok();
  return costs;
}

Status RunReporter::WriteSummary() {
  parts_.terminal->EndTransient();
  const std::string few = parts_.access != nullptr ? FewContributorsLine(contributions_) : "";
  if (!few.empty()) parts_.terminal->Print({event::kDataNote, few});
  const RunStatus status = parts_.core->Describe(parts_.clock->Millis());
  const Overrides& chosen = parts_.core->run().settings;
  if (parts_.core->outcome().ok() && !chosen.empty()) {
    const std::string path = directory_ + "/config.ini";
    const Result<Config> config = LoadConfig(path, chosen);
    DSLIDE_RETURN_IF_ERROR(config);
    DSLIDE_RETURN_IF_ERROR(WriteWholeFile(path, FormatConfig(*config)));
  }
  return WriteWholeFile(directory_ + "/summary.json",
                        SummaryJson(status, WriteCosts(status), UsageOfThisProcess()));
}

double RunReporter::ElapsedSeconds() const {
  return static_cast<double>(parts_.clock->Millis() - started_ms_) / 1000.0;
}

}  // namespace dslide
