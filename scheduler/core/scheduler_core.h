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
#include "common/wire/messages.h"
#include "scheduler/balance/advisor.h"
#include "scheduler/balance/balancer.h"
#include "scheduler/balance/slot_loads.h"
#include "scheduler/base/outbox.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/checkpoints/checkpointer.h"
#include "scheduler/leases/lease_book.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/members/admission.h"
#include "scheduler/members/roster.h"
#include "scheduler/pass/step_book.h"
#include "scheduler/pass/training_stats.h"

namespace dslide {

class SchedulerCore {
 public:
  enum class Phase { kGathering, kLoading, kTraining, kEvaluating, kFinished };

  using Effects = SchedulerEffects;

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
  const MoveTotals& moves() const { return balancer_.totals(); }
  size_t MovingSlots() const { return moving_ ? moving_->wave.moves.size() : 0; }
  // The last decisions and departures.
  const Journal& journal() const { return out_.journal(); }
  const Decisions& strategy() const { return advisor_.decisions(); }
  int64_t started_ms() const { return started_ms_; }
  double BatchesPerSecond(Incarnation worker, int64_t now_ms) const {
    return advisor_.BatchesPerSecond(worker, now_ms);
  }
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
  const std::string& last_checkpoint() const { return checkpointer_.newest_directory(); }

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
    SlotWave wave;
    std::map<Incarnation, MoveSlots> orders;
    std::set<Incarnation> waiting;  // for their MoveReady
    int64_t began_ms = 0;
    int64_t sent_ms = 0;
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
    PlanSwitchReport report;
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
  void OnCheckpointNow(Member& member, const Message& message, int64_t now_ms);
  void OnStepsCommitted(Member& member, const StepsCommitted& done, int64_t now_ms);

  // Members and seats (scheduler_recovery.cc).
  void DropDeadMembers(int64_t now_ms);
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
  Balancer::View ViewLoads() const;
  void TendBalance(int64_t now_ms);

  // Moves (scheduler_moves.cc).
  void OnMoveReady(const Member& member, const MoveReady& ready);
  void OnDrain(Member& member, const Message& message, const DrainServer& drain, int64_t now_ms);
  bool OfThisGeneration(const Envelope& envelope) const;
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
  void BeginMoves(SlotWave wave, int64_t now_ms);
  void AdvanceMoves(int64_t now_ms);
  void CancelMoves();
  void SwitchToMoves(int64_t now_ms);
  void SwitchTo(Plan plan, std::set<Incarnation> sources, size_t slots, int64_t now_ms);
  void FinishPlanSwitch(const Ready& ready, int64_t now_ms);
  void Decide(int64_t now_ms);
  void ForgetTheGone();
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
  void MaybeCheckpoint(int64_t now_ms);
  void AfterCheckpoint(int64_t now_ms);
  bool StopsWithLastCheckpoint() const;
  // The run has nothing to do but its last checkpoint.
  bool WaitsForCheckpoint() const { return stop_wanted_ || training_complete_; }
  void FinishIfFailed(const Status& checkpoint, int64_t now_ms);
  uint64_t BatchesToSave() const;
  CountedWork WorkToSave() const;
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
  std::set<Incarnation> gone_;         // lost, and the generation went on without them
  uint64_t next_move_ = 1;
  Balancer balancer_;
  Advisor advisor_;
  Checkpointer checkpointer_;
  int64_t sent_again_ms_ = 0;
  bool stop_wanted_ = false;
  bool training_complete_ = false;  // the last epoch is done; its checkpoint may not be
  int64_t training_since_ms_ = -1;
  int64_t training_ms_ = 0;
  double training_cpu_seconds_ = 0;
  Outbox out_;
};

}  // namespace dslide
