// The scheduler's decisions: members, slot plans, leases, evaluations, checkpoints, recovery.
//
// A pure core: messages and time go in, messages and effects come out; it owns no socket, file or
// thread. The core is a dispatcher: each part below owns its fields, none knows another, and the
// core passes values between them.
//
//   Cluster        who takes part: roster, newcomers, the plan's seats, measured loads
//   Balancer       when slots move
//   Advisor        what every member should do
//   Checkpointer   the checkpoint in progress, and the newest one
//   Generation     what lives as long as a generation of plans:
//     Pass           the epoch or evaluation in progress, and what counts
//     PlanChange     slots that move, the pause of the workers, the switch to the next plan
//   RunTotals, TrainingClock   what this scheduler has seen of the run
//   Outbox         what the present call wants done, and the journal of decisions
//
// The phases of a run are in run_status.h. A plan says who has which slots. Plans of one generation
// carry the same state on: slots move to balance the load, to a server that joins, and from one
// that is to leave, while training goes on. When a server of the plan is lost the pass is
// interrupted. If the server comes back as it was, the pass goes on. Otherwise a spare takes its
// seat, or after cluster.takeover_s the others share its slots: a plan of a new generation, with
// which the servers and what counts go back to the newest complete checkpoint together. What counts
// is in the ledger (scheduler/ledger/ledger.h) before any message says so, so a new life of the
// scheduler goes on where the last one died.
//
// In four files: scheduler_core.cc (messages, time), scheduler_seats.cc (members, seats,
// generations), scheduler_plans.cc (changes of plan), scheduler_passes.cc (passes, checkpoints, the
// end).
#pragma once

#include <string>
#include <vector>

#include "scheduler/balance/advisor.h"
#include "scheduler/balance/balancer.h"
#include "scheduler/base/outbox.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/checkpoints/checkpointer.h"
#include "scheduler/core/generation.h"
#include "scheduler/core/run_status.h"
#include "scheduler/pass/run_totals.h"
#include "scheduler/pass/training_clock.h"
#include "scheduler/plan/cluster.h"

namespace dslide {

class SchedulerCore {
 public:
  using Phase = RunPhase;
  using Effects = SchedulerEffects;

  SchedulerCore(RunInputs inputs, int64_t now_ms);

  Effects Handle(const PeerId& from, const Message& message, int64_t now_ms);
  Effects Tick(int64_t now_ms);
  // A process answered at the address that `server` advertises. `who`: its incarnation, 0 if its
  // answer was no message.
  Effects OnProbe(Incarnation server, Incarnation who, int64_t now_ms);
  // Whether the socket of Effects::probes is still of use.
  bool AwaitsProbe(Incarnation server) const { return cluster_.admission.Awaits(server); }
  // The outcome of Effects::manifest.
  Effects OnManifest(const Status& written, int64_t now_ms);
  Effects OnLedgerFailure(const Status& status, int64_t now_ms);
  // What a message of this core took on the wire.
  void CountSent(const Body& body, size_t bytes) { totals_.CountSent(body, bytes); }
  // SIGTERM or SIGINT: checkpoint what there is, then stop with exit code 85.
  Effects RequestStop(int64_t now_ms);

  Phase phase() const;
  // REQUIRES phase() == kFinished. Not ok: why the run ended early.
  const Status& outcome() const { return outcome_; }
  // Everybody has said goodbye after Shutdown.
  bool AllLeft() const {
    return roster().Count(Role::kServer) == 0 && roster().Count(Role::kWorker) == 0;
  }
  RunStatus Describe(int64_t now_ms) const;

  const RunContext& run() const { return inputs_; }
  const Plan& plan() const { return cluster_.seats.plan(); }
  uint32_t plan_version() const { return plan().version; }
  const Roster& roster() const { return cluster_.roster; }

 private:
  enum class Stage { kGathering, kLoading, kInPass, kFinished };

  Pass& pass() { return generation_.pass; }
  const Pass& pass() const { return generation_.pass; }
  PlanChange& change() { return generation_.change; }
  const PlanChange& change() const { return generation_.change; }
  bool InPass() const { return stage_ == Stage::kInPass; }
  // A pass waits for a seat.
  bool Interrupted() const { return stage_ == Stage::kGathering && pass().begun(); }
  bool Training() const { return InPass() && !pass().evaluating(); }
  // All servers have the slots of the plan in force.
  bool Settled() const { return !change().switching() && roster().AllReady(); }
  // Slots can move: the run goes on, with all servers.
  bool MayMove() const {
    return InPass() && !stop_wanted_ && cluster_.seats.Vacant(roster()).empty();
  }
  bool MayLease() const { return InPass() && !stop_wanted_; }
  // The run ends with the newest checkpoint.
  bool StopsWithLastCheckpoint() const {
    return stop_wanted_ &&
           (checkpointer_.last_round_stops() || checkpointer_.IsSaved(pass().BatchesToSave()));
  }
  std::string WaitingLine() const { return cluster_.WaitingLine(inputs_.config.cluster); }
  void ServePending(int64_t now_ms) {
    if (MayLease()) generation_.ServePending(inputs_, roster(), now_ms, &advisor_, &out_);
  }
  // The run has nothing to do but its last checkpoint.
  bool WaitsForCheckpoint() const { return stop_wanted_ || pass().training_complete(); }

  // Messages.
  void Dispatch(Member* member, const Message& message, int64_t now_ms);
  void OnJoin(const PeerId& from, const Message& message, bool reached, int64_t now_ms);
  void OnReady(Member* member, const Ready& ready, int64_t now_ms);
  void OnHeartbeat(Member* member, const Heartbeat& heartbeat, const Message& message,
                   int64_t now_ms);
  void OnLeaseRequest(const Member& member, const Message& message, int64_t now_ms);
  void OnBatchDone(Member* member, const BatchDone& done, const Message& message, int64_t now_ms);
  void OnCheckpointNow(const Member& member, const Message& message, int64_t now_ms);
  void OnDrain(Member* asking, const DrainServer& drain, const Message& message, int64_t now_ms);
  void Advise(int64_t now_ms);
  void SendAgain(int64_t now_ms);
  // Ends every public call.
  Effects Drain() {
    CheckInvariants();
    return out_.Drain();
  }
  void CheckInvariants() const;

  // Members and seats (scheduler_seats.cc).
  void TendMembers(int64_t now_ms);
  void WelcomeServer(Member* member, const Join& join, int64_t now_ms);
  void TendSeats(int64_t now_ms);
  void BeginGeneration(const std::vector<SeatedServer>& servers, std::vector<uint16_t> slot_owner,
                       int64_t now_ms);
  void Interrupt(int64_t now_ms);
  void Go(int64_t now_ms);

  // Changes of plan (scheduler_plans.cc).
  void TendPlan(int64_t now_ms);
  bool AwaitPlanSwitch(int64_t now_ms);
  void LookAtLoads(int64_t now_ms);
  void AddServers(const std::vector<const Member*>& servers, int64_t now_ms);
  bool MakeWay(int64_t now_ms);
  void SwitchTo(Plan next, int64_t now_ms);
  void OnTakenUp(const Ready& ready, int64_t now_ms);

  // Passes and checkpoints (scheduler_passes.cc).
  void Proceed(int64_t now_ms);
  void EndEvaluation(int64_t now_ms);
  void BeginNextPass(int64_t now_ms);
  void MaybeCheckpoint(int64_t now_ms);
  void AfterCheckpoint(int64_t now_ms);
  Error StoppedWithoutServers() const;
  void Finish(Status outcome, const std::string& reason, int64_t now_ms);

  RunInputs inputs_;
  InversePropensities inverse_propensities_;
  int64_t started_ms_;
  Stage stage_ = Stage::kGathering;
  Status outcome_;
  bool stop_wanted_ = false;
  int64_t sent_again_ms_ = 0;
  Cluster cluster_;
  Balancer balancer_;
  Advisor advisor_;
  Checkpointer checkpointer_;
  Generation generation_;
  RunTotals totals_;
  TrainingClock clock_;
  Outbox out_;
};

}  // namespace dslide
