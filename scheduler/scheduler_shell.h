// The scheduler process: socket, run directory and terminal around a SchedulerCore.
//
// The run directory holds config.ini (effective), ledger/, checkpoint/, summary.json and what
// RunRecorder writes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/checkpoint/checkpoint_hook.h"
#include "common/net/member_link.h"
#include "common/net/socket.h"
#include "scheduler/address_prober.h"
#include "scheduler/base/line_limit.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/members/message_budget.h"
#include "scheduler/run_start.h"
#include "scheduler/status/learning_curve.h"
#include "scheduler/status/progress.h"
#include "scheduler/status/recorder.h"
#include "scheduler/status/run_costs.h"
#include "scheduler/status/status.h"

namespace dslide {

class SchedulerShell {
 public:
  // Reads the data, serves the run to its end, writes the summary.
  static Status Run(const SchedulerOptions& options, StopSignals* signals);

 private:
  explicit SchedulerShell(std::unique_ptr<StartedRun> run);

  // Kinds of lines that peers can cause, each of which is limited.
  enum class PeerWarning { kMalformed, kRefused, kUnreachable, kFlood, kOtherConnection };
  static constexpr size_t kPeerWarnings = 5;

  // What came in a turn of the loop.
  struct Turn {
    size_t taken = 0;    // messages that were looked at
    size_t dropped = 0;  // that were more than their connections may bring
  };

  Status Loop(StopSignals* signals);
  void Apply(SchedulerCore::Effects effects);
  Turn ReceiveSome();
  void Take(const RouterSocket::Received& received);
  void ReceiveProbes();
  bool ByItsConnection(const PeerId& peer, const Message& message);
  std::optional<ErrorReply> WhyRefused(const RouterSocket::Received& received,
                                       const Message& message);
  void SendAccess(const Member& to);
  void RefreshAccess();
  void SendProbe(const Admission::Probe& probe);
  void Answer(const PeerId& peer, Body body, uint64_t reply_to);
  void ShowProgress();
  void RecordProgress();
  // Begins, collects and reports checkpoint.hook, and holds the checkpoint that it reads.
  void TendHook();
  // Looks for room for the checkpoint that waits for it.
  void MakeRoomForCheckpoint();
  void WaitForHook(StopSignals* signals);
  void PublishStatus();
  std::string StatusText(const RunStatus& status);  // JSON
  const std::string& RecentStatus();                // the same, made at most every kStatusMs
  void ShowEvaluation(const EvaluationResult& result);
  void Print(const std::string& line, bool transient);
  void Log(const std::string& line);
  void Warn(const std::string& line);
  void Warn(PeerWarning kind, const std::string& line);
  void ClearTransient();
  RunCosts WriteCosts(const RunStatus& status);
  Status WriteSummary();
  double ElapsedSeconds();
  // Hands the core the segment of the stream that it wants, if it has come. A signal ends the
  // stream at first.
  void TendStream();
  bool EndsStream();
  void ForgetSegments();

  std::string run_directory_;
  // What follows points into these three.
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<RunData> data_;
  RunId run_;
  Contributions contributions_;  // of all entries of the ledger
  AwakeClock clock_;
  SchedulerCore core_;
  NetContext* context_;
  AccessControl* access_;  // null: no encryption
  RouterSocket& socket_;
  StatusPage* page_;  // null: none
  AddressProber prober_;
  Incarnation incarnation_;
  uint64_t next_sequence_ = 1;
  int64_t started_ms_;
  int64_t shown_ms_ = 0;
  int64_t recorded_ms_ = 0;
  int64_t published_ms_ = 0;
  int64_t history_published_ms_ = 0;
  int64_t access_read_ms_ = 0;
  int64_t budget_trimmed_ms_ = 0;
  RateLimit refusal_lines_;
  std::array<LineLimit, kPeerWarnings> peer_warnings_;
  LineLimit doctor_lines_;
  MessageBudget budget_;
  std::string status_text_;  // JSON, of status_made_ms_
  int64_t status_made_ms_;
  uint64_t malformed_ = 0;
  ProgressMeter meter_;         // of the progress line
  ProgressMeter record_meter_;  // of metrics.jsonl
  ProgressMeter page_meter_;    // of the status page
  ProgressMeter::Reading page_reading_;
  int64_t page_read_ms_ = 0;
  LearningCurve curve_;
  RunRecorder recorder_;
  CheckpointHook hook_;
  CheckpointCare care_;  // what hook and quota come to, for status
  CostMeter costs_;
  StreamFeeder* stream_;         // null: the training data is a file
  uint32_t segment_wanted_ = 0;  // 0: none
  bool stream_ends_ = false;
  bool terminal_;
  bool log_is_output_;  // lines of the log need not be printed as well
  bool transient_shown_ = false;
};

}  // namespace dslide
