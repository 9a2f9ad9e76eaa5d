// The scheduler's decisions: roster, slot plan, leases, evaluations, checkpoints, recovery.
//
// A pure core: messages and time go in, messages and effects come out; it owns no socket, file or
// thread. A run goes through phases:
//
//   kGathering   the plan's seats (or, before the first plan, cluster.servers of them) wait for
//                servers
//   kLoading     a plan is out, servers initialise or restore their slots
//   kTraining    units of the epoch are leased; checkpoints are written meanwhile
//   kEvaluating  units of the evaluation are leased
//   kFinished    Shutdown is out
//
// A plan says who has which slots. Those of one generation carry the same state on: slots move to
// balance the load, to a server that joins, and from one that shall leave, without a pause
// (scheduler_moves.cc). When one of its servers is lost the run goes back to kGathering. If that
// server comes back as it was, the pass goes on. Otherwise a spare takes its seat, or after
// cluster.takeover_s the others share its slots: a plan of a new generation, with which the servers
// and what counts go back to the last complete checkpoint together. What counts is in the ledger
// (scheduler/ledger/ledger.h) before anybody is told of it, so a new life of the scheduler goes on
// where the last one died.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/balance/planner.h"
#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/data/data_order.h"
#include "common/data/dataset.h"
#include "common/data/metrics.h"
#include "common/wire/messages.h"
#include "scheduler/balance/slot_loads.h"
#include "scheduler/balance/strategy.h"
#include "scheduler/core/checkpoint_round.h"
#include "scheduler/core/step_book.h"
#include "scheduler/core/training_stats.h"
#include "scheduler/leases/lease_book.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/members/admission.h"
#include "scheduler/members/roster.h"
#include "scheduler/members/speed_meter.h"

namespace dslide {

// What a run is made of. The data sets must outlive the core.
struct RunInputs {
  Config config;  // resolved
  RunId run;
  const Dataset* train = nullptr;
  const Dataset* test = nullptr;              // null: no evaluation
  std::string checkpoint_directory;           // where checkpoints are put
  LedgerState ledger = {};                    // of the run so far; not opened: a new one
  std::optional<Manifest> checkpoint = {};    // the newest complete one, to go back to
  std::string checkpoint_path = {};           // its own directory
  std::vector<std::string> checkpoints = {};  // names of all complete ones, oldest first
};

// A figure that was reached; the shell writes it to metrics.jsonl and shows it.
struct EvaluationResult {
  uint32_t epoch = 0;  // epochs trained so far
  bool final = false;  // over all test samples
  RankingMetrics metrics;
};

// What was done to balance, since this scheduler started.
struct MoveTotals {
  uint32_t plans = 0;  // of a generation that went on
  uint64_t slots = 0;
  uint64_t bytes = 0;       // sent for them
  uint64_t slot_bytes = 0;  // that they have
  uint32_t longest_stall_us = 0;
};

// A line that says what was decided, and why.
struct DecisionLine {
  int64_t at_ms = 0;
  std::string text;
};

// A member that is gone.
struct Departure {
  Incarnation incarnation;
  Role role;
  std::string name;
  int64_t at_ms = 0;
  bool lost = false;  // it died, or left without handing over what it had
  std::string why;    // "left", "has been silent for 8.2 s, taken for dead"
};

class SchedulerCore {
 public:
  enum class Phase { kGathering, kLoading, kTraining, kEvaluating, kFinished };

  struct Outgoing {
    PeerId to;
    Body body;
    uint64_t reply_to = 0;
  };

  // What the shell has to do, in this order.
  struct Effects {
    // Append all or none; if that fails call LedgerFailed() and send nothing.
    std::vector<LedgerEntry> ledger;
    // Servers are about to be told what counts: all entries have to be on the disk before.
    bool sync_ledger = false;
    std::vector<Outgoing> send;
    std::vector<Outgoing> status_wanted;  // to be sent with the status as it is then
    std::vector<std::string> notices;     // one line each, for the log and the terminal
    std::vector<EvaluationResult> evaluations;
    std::optional<Manifest> manifest;    // write it; then call ManifestWritten()
    std::optional<uint32_t> epoch_done;  // epochs trained so far
    // Send a request to each of these addresses, and tell OnProbe() who answers.
    std::vector<Admission::Probe> probes;
  };

  SchedulerCore(RunInputs inputs, int64_t now_ms);

  Effects Handle(const PeerId& from, const Message& message, int64_t now_ms);
  Effects Tick(int64_t now_ms);
  // A process answered at the address that `server` advertises. `who`: its incarnation, 0 if its
  // answer was no message.
  Effects OnProbe(Incarnation server, Incarnation who, int64_t now_ms);
  // Whether the socket of Effects::probes is still of use.
  bool AwaitsProbe(Incarnation server) const { return admission_.Awaits(server); }
  // The outcome of Effects::manifest.
  Effects ManifestWritten(const Status& status, int64_t now_ms);
  Effects LedgerFailed(const Status& status, int64_t now_ms);
  // The shell reports what a message of this core took on the wire.
  void NoteSent(const Body& body, size_t bytes);
  // SIGTERM or SIGINT: checkpoint what there is, then stop with exit code 85.
  Effects RequestStop(int64_t now_ms);

  Phase phase() const { return phase_; }
  // REQUIRES phase() == kFinished. Not ok: why the run ended early.
  const Status& outcome() const { return outcome_; }
  bool AllLeft() const;  // everybody has said goodbye after Shutdown

  const Config& config() const { return inputs_.config; }
  const std::string& checkpoint_directory() const { return inputs_.checkpoint_directory; }
  uint64_t train_samples() const { return inputs_.train->size(); }
  // What counts, over the whole run; a recovery takes it back.
  uint64_t counted_batches() const { return batches_; }
  uint64_t counted_samples() const { return samples_; }
  // All work of this life of the scheduler, also what a recovery took back.
  const TrainingStats& work() const { return work_; }
  uint32_t plan_version() const { return plan_.version; }
  uint32_t recoveries() const { return recoveries_; }  // of this life
  // Bytes of training leases over the samples trained, both since this scheduler started.
  double LeaseBytesPerSample() const;
  size_t WorkerCount() const { return roster_.Count(Role::kWorker); }
  const Roster& roster() const { return roster_; }
  const Plan& plan() const { return plan_; }
  const SlotLoads& loads() const { return loads_; }
  // Largest relative load of a server (common/balance/planner.h).
  double Imbalance() const;
  std::vector<double> RelativeLoads() const;  // [plan's servers]
  const MoveTotals& moves() const { return moves_; }
  size_t MovingSlots() const { return moving_ ? moving_->moves.size() : 0; }
  const std::deque<DecisionLine>& decisions() const { return decisions_; }
  // The last ones, oldest first.
  const std::deque<Departure>& departures() const { return departures_; }
  const Decisions& strategy() const { return strategy_now_; }
  int64_t started_ms() const { return started_ms_; }
  double BatchesPerSecond(Incarnation worker, int64_t now_ms) const;
  const std::optional<EvaluationResult>& last_evaluation() const { return last_evaluation_; }
  uint32_t epoch() const { return epoch_; }
  // Share of all epochs' batches that count, [0, 1].
  double Progress() const;
  // Milliseconds spent in kTraining, pauses for checkpoints included.
  int64_t TrainingMillis(int64_t now_ms) const;
  double training_cpu_seconds() const { return training_cpu_seconds_; }
  // "have 1 of 2 servers, waiting for 1 more" and the like.
  std::string WaitingLine() const;
  // The newest complete checkpoint of this life, empty if none yet.
  const std::string& last_checkpoint() const { return last_checkpoint_; }

 private:
  // A place in the plan, by its server's index.
  struct Seat {
    bool lost;          // its server is dead or has left
    int64_t since_ms;   // when it was lost, or when this life began to wait for it
    bool left = false;  // the server said goodbye, so it does not come back as it was
  };
  struct Seated {  // in the next plan
    const Member* server;
    std::optional<size_t> seat;  // that was its own, or of whom it replaces
  };
  struct Placement {
    std::vector<uint16_t> slot_owner;  // [V] index into the servers
    uint64_t lacking_bytes = 0;        // of memory: some servers have more than they may use
  };
  struct PendingRequest {  // a worker that asked for a lease when there was none
    Incarnation worker;
    uint64_t sequence;  // of its request
    bool has_data;
  };

  // Copies of slots under way; the plan changes once they are ready.
  struct Moving {
    uint64_t id = 0;
    std::vector<SlotMove> moves;  // owners: servers of the plan
    std::map<Incarnation, MoveSlots> orders;
    std::set<Incarnation> waiting;  // for their MoveReady
    int64_t began_ms = 0;
    int64_t sent_ms = 0;
    int64_t patience_ms = 0;  // after began_ms they are given up
  };
  // Workers begin no batches: the plan is about to change.
  struct WorkerPause {
    std::set<Incarnation> waiting;  // workers that may have batches in flight
    int64_t since_ms = 0;
    int64_t until_ms = 0;
    double batch_ms = 0;  // BatchMs() when it began
    bool wanted = true;   // since the last look
  };
  // A plan of the same generation that not all servers have taken up yet.
  struct PlanSwitch {
    std::set<Incarnation> sources;  // that others copy from
    size_t slots = 0;
    double batch_ms = 0;    // what those took that were in flight before; 0: workers were not held
    int64_t paused_ms = 0;  // workers, before
    size_t unpaused = 0;    // workers that had batches in flight when the plan came
    uint64_t bytes = 0;
    uint64_t slot_bytes = 0;
    uint32_t stall_us = 0;
  };

  // Messages.
  void OnJoin(const PeerId& from, const Message& message, bool reached, int64_t now_ms);
  void TendApplicants(int64_t now_ms);
  void OnServerJoined(Member& member, const Join& join, int64_t now_ms);
  void OnReady(Member& member, const Ready& ready, int64_t now_ms);
  void OnHeartbeat(Member& member, const Heartbeat& heartbeat, const Message& message,
                   int64_t now_ms);
  void OnLeave(const Member& member, int64_t now_ms);
  void OnError(const Member& member, const ErrorReply& error, int64_t now_ms);
  void OnLeaseRequest(Member& member, const Message& message, const LeaseRequest& request,
                      int64_t now_ms);
  void OnBatchDone(Member& member, const Message& message, const BatchDone& done, int64_t now_ms);
  void CountTrained(Member& member, const BatchDone& done, int64_t now_ms);
  void CountEvaluated(const BatchDone& done, int64_t now_ms);
  void OnCheckpointDone(const Member& member, const CheckpointDone& done, int64_t now_ms);
  void NoteSaved(const Member& member, const CheckpointDone& done);
  bool NobodySaves() const;
  void OnCheckpointNow(Member& member, const Message& message, int64_t now_ms);
  void OnStepsCommitted(Member& member, const StepsCommitted& done, int64_t now_ms);

  void Reply(const Member& to, const Message& request, Body body);
  void Send(const Member& to, Body body);
  void Broadcast(Role role, const Body& body);
  void BroadcastToSeated(const Body& body);
  void Notice(std::string line);
  // Not inlined: GCC 12 warns of reading other kinds of entries where it knows the kind.
  [[gnu::noinline]] void Record(LedgerEntry entry);

  // Members and seats (scheduler_recovery.cc).
  void DropDeadMembers(int64_t now_ms);
  void NoteDeparture(const Member& member, bool lost, const std::string& why, int64_t now_ms);
  void DropWorker(const Member& worker, bool lost, const std::string& why, int64_t now_ms);
  void LoseServer(const Member& server, bool left, const std::string& why, int64_t now_ms);
  void TendSeats(int64_t now_ms);
  void LeaveOut(const Member& server, const std::string& why, int64_t now_ms);
  void LeaveOutSilent(int64_t now_ms);
  bool LeaveOutUnready(const std::string& why, int64_t now_ms);
  void TendLoading(int64_t now_ms);
  void StopWithoutServers(int64_t now_ms);
  std::vector<size_t> VacantSeats() const;
  bool SeatIsGone(size_t seat, int64_t now_ms) const;
  std::vector<Seated> ChooseServers() const;
  void PublishPlan(const std::vector<Seated>& servers, const Placement& placement, int64_t now_ms);
  void GoBackToCheckpoint();
  void Interrupt(int64_t now_ms);
  void Go(int64_t now_ms);
  void BeginPass(int64_t now_ms);
  Phase pass() const { return interrupted_.value_or(phase_); }
  bool InPass() const { return phase_ == Phase::kTraining || phase_ == Phase::kEvaluating; }

  // Balance (scheduler_balance.cc).
  bool CapacitiesMeasured() const;
  BalancePlan PlanMoves(const BalanceOptions& options) const;
  int64_t LookGapMs() const;
  double BatchMs() const;
  void TendBalance(int64_t now_ms);
  void BalanceWithin(int64_t now_ms);
  void NoteBalanced(const BalancePlan& plan, int64_t now_ms);

  // Moves (scheduler_moves.cc).
  void OnMoveReady(const Member& member, const MoveReady& ready);
  void OnDrain(Member& member, const Message& message, const DrainServer& drain, int64_t now_ms);
  bool OfThisGeneration(const Envelope& envelope) const;
  bool AllReady() const;
  bool Settled() const;
  bool MayMove() const;
  bool CanSwitchPlan() const;
  bool MaySwitchPlan(int64_t now_ms);
  bool NothingInFlight(int64_t now_ms);
  void EndPause(int64_t now_ms);
  HeartbeatReply OrdersFor(const Member& member, int64_t now_ms) const;
  bool AwaitPlanSwitch(int64_t now_ms);
  bool NewcomersProven() const;
  bool ReleaseEmptyServers(int64_t now_ms);
  static Plan WithoutEmpty(const Plan& plan, const std::vector<bool>& unwanted);
  bool GoOnWithout(const std::vector<size_t>& vacant, int64_t now_ms);
  std::string WhyTooSmall(const Join& join) const;
  void AddServers(const std::vector<const Member*>& servers, int64_t now_ms);
  std::vector<Incarnation> PlanIncarnations() const;
  std::vector<bool> LeavingServers() const;
  void BeginMoves(const BalancePlan& plan, int64_t now_ms);
  void AdvanceMoves(int64_t now_ms);
  void CancelMoves();
  void RenewTables(const Member& server, int64_t now_ms);
  void SwitchToMoves(int64_t now_ms);
  void SwitchTo(Plan plan, std::set<Incarnation> sources, size_t slots, int64_t now_ms);
  void FinishPlanSwitch(const Ready& ready, int64_t now_ms);
  uint64_t WaveBytes() const;
  double MoveBytesPerMs() const;
  void Decide(int64_t now_ms);
  void ForgetTheGone();
  void NoteDecision(std::string line, int64_t now_ms);
  Placement Place(const std::vector<Seated>& servers) const;
  bool TryPlan(const std::vector<Seated>& servers, int64_t now_ms);

  // Leases.
  bool GiveLease(const Member& member, const PendingRequest& pending, int64_t now_ms);
  void ServePendingRequests(int64_t now_ms);
  std::optional<Lease> NextLease(const Member& worker, int64_t now_ms);

  // Steps and passes (scheduler_passes.cc).
  void Commit();
  bool AllCommitted() const;
  uint64_t OpenBatches() const;
  void StartEpoch();
  void Proceed(int64_t now_ms);
  void FinishPass(int64_t now_ms);
  void StartEvaluation(bool final);
  void FinishEvaluation(int64_t now_ms);
  void NextPass(int64_t now_ms);
  void Pause(int64_t now_ms);
  void Finish(Status outcome, const std::string& reason, int64_t now_ms);
  void SendAgain(int64_t now_ms);

  // Checkpoints (scheduler_checkpoints.cc).
  bool CheckpointDue(int64_t now_ms);
  void MaybeCheckpoint(int64_t now_ms);
  void AfterCheckpoint(int64_t now_ms);
  void GiveRoundUp(int64_t now_ms);
  void FailRound(const Error& error, int64_t now_ms);
  bool StopsWithLastCheckpoint() const;
  void AnswerCheckpointWaiters(const std::string& error);
  CheckpointRequest MakeCheckpointRequest() const;
  uint64_t BatchesToSave() const;
  Manifest MakeManifest() const;  // without shards
  // Ends every public call.
  Effects Drain();
  void CheckInvariants() const;

  RunInputs inputs_;
  int64_t started_ms_;
  Phase phase_ = Phase::kGathering;
  Status outcome_;
  Roster roster_;
  Admission admission_;
  Plan plan_;                         // version 0: none yet
  uint64_t lacking_bytes_ = 0;        // of memory, for the next plan
  bool live_ = false;                 // plan_'s servers may hold its state
  std::vector<Seat> seats_;           // [plan_.servers]
  std::optional<Phase> interrupted_;  // the pass that waits for a seat
  uint32_t recoveries_ = 0;
  uint32_t joined_version_ = 0;  // of the plan by which servers joined last
  uint32_t proven_version_ = 0;  // of the newest plan by which a worker has done a batch
  uint64_t ledger_entries_;

  // What counts.
  uint32_t epoch_ = 0;  // in progress, or epochs trained when evaluating
  uint64_t batches_ = 0;
  uint64_t samples_ = 0;
  std::vector<DoneBatch> done_;  // of epoch_, before its book is made

  std::optional<DataOrder> order_;
  std::optional<LeaseBook> book_;
  std::optional<StepBook> steps_;  // of book_, in synchronous training
  std::optional<uint64_t> told_;   // steps of the run that the servers were told count
  uint64_t told_batches_ = 0;      // of this epoch, in those steps
  std::vector<PendingRequest> pending_requests_;  // in the order in which they asked
  std::optional<RankingEvaluator> evaluator_;
  bool final_evaluation_ = false;
  InversePropensities inverse_propensities_;
  uint64_t train_checksum_;
  TrainingStats work_;
  uint64_t lease_bytes_ = 0;  // of training leases
  std::optional<EvaluationResult> last_evaluation_;

  SlotLoads loads_;
  std::optional<Moving> moving_;
  std::optional<WorkerPause> pause_;
  std::optional<PlanSwitch> switch_;
  int64_t switch_wanted_ms_ = 0;
  std::optional<uint64_t> lease_end_;  // synchronous training: none at or behind, for a plan switch
  uint64_t leased_end_ = 0;            // batches of the pass that were leased so far are below
  bool balancing_ = false;             // until the load was even for some time
  int64_t moved_ms_ = 0;               // slots last began to move
  uint32_t unbalanced_looks_ = 0;
  int64_t even_ms_ = 0;                       // the load was so even that nothing would move
  uint32_t hash_round_ = 0;                   // that servers were told to build
  std::map<Incarnation, double> inner_skew_;  // of executors, when they were last balanced
  std::set<Incarnation> gone_;                // lost, and the generation went on without them
  uint64_t next_move_ = 1;
  double least_stall_us_ = 0;  // of late; 0: no plan has changed yet
  double last_stall_us_ = 0;
  double wave_bytes_ = 4 << 20;  // of the slots of a plan; follows the pauses
  int64_t balanced_ms_ = 0;      // looked at last
  int64_t switched_ms_ = 0;      // last change of plan
  double lost_ms_ = 0;           // of training since then, by uneven load
  int64_t decided_ms_ = 0;
  MoveTotals moves_;
  Strategy strategy_;
  Decisions strategy_now_;
  std::map<Incarnation, WorkerDecision> worker_decisions_;
  std::map<Incarnation, SpeedMeter> speeds_;
  std::deque<DecisionLine> decisions_;
  std::deque<Departure> departures_;

  std::optional<CheckpointRound> round_;
  Manifest manifest_;                     // of round_
  CheckpointRequest checkpoint_request_;  // of round_
  bool round_stops_ = false;              // the run ends when round_ is written
  // Servers of this generation that were asked for a checkpoint, and its name: they may be writing
  // it, also when the round was given up.
  std::set<std::pair<Incarnation, std::string>> saving_;
  std::optional<uint64_t> saved_batches_;  // what the last checkpoint holds
  std::optional<Manifest> checkpoint_;     // the last complete one
  std::string last_checkpoint_;            // its directory
  std::vector<std::string> checkpoints_;   // complete ones, by name, oldest first
  int64_t sent_again_ms_ = 0;
  bool checkpoint_wanted_ = false;
  int64_t checkpoint_not_before_ms_ = 0;
  int64_t last_failing_since_ms_ = 0;  // the one that the run ends with; 0: it has not failed
  bool stop_wanted_ = false;
  bool training_complete_ = false;  // the last epoch is done; its checkpoint may not be
  std::vector<std::pair<Incarnation, uint64_t>> checkpoint_waiters_;
  int64_t last_checkpoint_ms_ = 0;
  int64_t training_since_ms_ = -1;
  int64_t training_ms_ = 0;
  double training_cpu_seconds_ = 0;
  Effects effects_;
};

}  // namespace dslide
