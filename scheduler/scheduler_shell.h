// The scheduler process: socket and run directory around a SchedulerCore.
//
// The run directory holds config.ini (effective), ledger/, checkpoint/ and what RunReporter writes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/checkpoint/checkpoint_hook.h"
#include "common/log/event.h"
#include "common/log/line_limit.h"
#include "common/net/member_link.h"
#include "common/net/socket.h"
#include "scheduler/address_prober.h"
#include "scheduler/base/ledger_queue.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/members/handout.h"
#include "scheduler/members/message_budget.h"
#include "scheduler/run_reporter.h"
#include "scheduler/run_start.h"
#include "scheduler/terminal.h"

namespace dslide {

class SchedulerShell {
 public:
  // Reads the data, serves the run to its end, writes the summary.
  static Status Run(const SchedulerOptions& options, StopSignals* signals);

 private:
  explicit SchedulerShell(std::unique_ptr<StartedRun> run);

  // What came in a turn of the loop.
  struct Turn {
    size_t taken = 0;    // messages that were looked at
    size_t dropped = 0;  // that were more than their connections may bring
  };

  Status Loop(StopSignals* signals);
  // Executes effects once their entries are in the ledger.
  void Apply(SchedulerCore::Effects effects);
  void Enqueue(SchedulerCore::Effects effects);
  void DrainLedgerQueue();
  void GiveUpLedger();
  void CarryOut(SchedulerCore::Effects effects);
  void SendIndependent(SchedulerCore::Effects* effects);
  void Execute(action::Send send);
  void Execute(const action::SendStatus& send);
  void Execute(const action::Log& log);
  void Execute(const action::LogDebug& log);
  void Execute(const action::CountLostServer& lost);
  void Execute(const action::ShowEpoch& epoch);
  void Execute(action::ShowEvaluation evaluation);
  void Execute(action::StoreRanking ranking);
  void Execute(action::WriteManifest write);
  void Execute(const action::FetchSegment& fetch);
  void Execute(const action::QuarantineKey& quarantine);
  void Execute(const action::Probe& probe);
  void RequestStop();
  Turn ReceiveSome();
  void Take(const RouterSocket::Received& received);
  void ReceiveProbes();
  bool ByItsConnection(const PeerId& peer, const Message& message);
  std::optional<ErrorReply> WhyRefused(const RouterSocket::Received& received,
                                       const Message& message);
  void SendAccess(const Member& to);
  void RefreshAccess();
  // The lists of keys are others now: all members get them, a few a turn.
  void BeginHandout();
  void HandOutAccess();
  void Answer(const PeerId& peer, Body body, uint64_t reply_to);
  // Begins, collects and reports checkpoint.hook, and holds the checkpoint that it reads.
  void TendHook();
  // Looks for room for the checkpoint that waits for it.
  void MakeRoomForCheckpoint();
  void WaitForHook(StopSignals* signals);
  // Stores the reranker once it is fitted.
  void StoreReranker();
  // Tells the measures of the reranker on the test samples.
  void MeasureReranker();
  void Warn(Event event);
  // Hands the core the segment of the stream that it wants, if it has come. A signal ends the
  // stream at first.
  void TendStream();
  bool EndsStream();
  void ForgetSegments();

  std::string run_directory_;
  // What follows points into these three.
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Ledger> ledger_;
  LedgerQueue ledger_queue_;
  std::optional<int64_t> stop_wanted_ms_;  // when a stop was first requested
  bool said_that_ledger_waits_ = false;
  std::optional<Status> manifest_written_;  // its outcome, until the core has it
  std::unique_ptr<RunData> data_;
  std::unique_ptr<Reranking> reranking_;  // null: labels are ranked by the model alone
  std::shared_ptr<const Reranker> reranker_;
  std::vector<RankedSample> ranked_test_;  // the last evaluation of test samples
  float usual_weight_ = 0;                 // of the logit adjustment
  std::string ranked_checkpoint_;          // the checkpoint that the ranking belongs to
  RunId run_;
  AwakeClock clock_;
  Terminal terminal_;
  SchedulerCore core_;
  NetContext* context_;
  AccessControl* access_;  // null: no encryption
  RouterSocket& socket_;
  AddressProber prober_;
  Incarnation incarnation_;
  uint64_t next_sequence_ = 1;
  int64_t access_read_ms_ = 0;
  std::array<std::shared_ptr<const Bytes>, 3> access_bytes_;  // by role: null until one needs it
  Handout access_handout_;
  int64_t budget_trimmed_ms_ = 0;
  LineLimit refusal_lines_;
  EventLimit peer_warnings_;
  LineLimit doctor_lines_;
  MessageBudget budget_;
  uint64_t malformed_ = 0;
  RunReporter reporter_;
  CheckpointHook hook_;
  StreamFeeder* stream_;         // null: the training data is a file
  uint32_t segment_wanted_ = 0;  // 0: none
  bool stream_ends_;             // by a signal
};

}  // namespace dslide
