// All that a scheduler knows of its run. Each part owns its fields and none knows another;
// SchedulerCore and the functions that scheduler_core.h lists pass values between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/data/measures/metrics.h"
#include "scheduler/balance/advisor.h"
#include "scheduler/balance/balancer.h"
#include "scheduler/base/outbox.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/checkpoints/checkpointer.h"
#include "scheduler/core/generation.h"
#include "scheduler/core/run_phase.h"
#include "scheduler/pass/drift_alarm.h"
#include "scheduler/pass/held_out_curve.h"
#include "scheduler/pass/loss_outliers.h"
#include "scheduler/pass/run_totals.h"
#include "scheduler/pass/training_clock.h"
#include "scheduler/pass/trust_policy.h"
#include "scheduler/plan/cluster.h"

namespace dslide {

struct RunState {
  RunState(RunInputs run_inputs, int64_t now_ms);

  Pass& pass() { return generation.pass; }
  const Pass& pass() const { return generation.pass; }
  PlanChange& change() { return generation.change; }
  const PlanChange& change() const { return generation.change; }
  const Plan& plan() const { return cluster.seats.plan(); }
  const Roster& roster() const { return cluster.roster; }
  // The parts of the run that `trust` reads and changes.
  TrustPolicy::Run Trusting() { return {inputs, &cluster, &pass(), &out, InPass()}; }

  RunPhase Phase() const;
  bool Finished() const { return phase == ClusterPhase::kFinished; }
  bool InPass() const { return phase == ClusterPhase::kReady; }
  // A pass waits for a seat.
  bool Interrupted() const { return phase == ClusterPhase::kGathering && pass().begun(); }
  void Enter(ClusterEvent event) { phase = Next(kClusterTransitions, phase, event); }
  bool Training() const { return InPass() && !pass().evaluating(); }
  // All servers have the slots of the plan in force.
  bool Settled() const { return !change().switching() && roster().AllReady(); }
  // No server with slots has steps to apply that count.
  bool AllCommitted() const;
  // Slots can move: the run goes on, with all servers.
  bool MayMove() const { return MayLease() && cluster.seats.Vacant(roster()).empty(); }
  // The servers have the slots and steps of the plan in force, and none writes a checkpoint.
  bool MaySwitch() const { return Settled() && AllCommitted() && !checkpointer.Writing(roster()); }
  bool MayLease() const { return InPass() && !stop_wanted; }
  // The run ends with the newest checkpoint.
  bool StopsWithLastCheckpoint() const {
    return stop_wanted &&
           (checkpointer.last_round_stops() || checkpointer.IsSaved(pass().BatchesToSave()));
  }
  // The run has nothing to do but its last checkpoint.
  bool WaitsForCheckpoint() const { return stop_wanted || pass().training_complete(); }
  std::string WaitingLine() const { return cluster.WaitingLine(inputs.config.cluster); }
  // Aborts if something does not hold that holds between two calls, whatever has happened.
  void CheckInvariants() const;

  RunInputs inputs;
  InversePropensities inverse_propensities;
  int64_t started_ms;                             // of this scheduler
  ClusterPhase phase = ClusterPhase::kGathering;  // Enter() changes it
  Status outcome;                                 // once finished; not ok: why the run ended early
  bool stop_wanted = false;                       // the run ends after a checkpoint
  int64_t sent_again_ms = 0;
  Cluster cluster;
  TrustPolicy trust;
  Balancer balancer;
  Advisor advisor;
  Checkpointer checkpointer;
  Generation generation;
  std::optional<DriftAlarm> drift;       // none: the loss does not tell (see DriftAlarm::Watches)
  std::optional<LossOutliers> outliers;  // the same
  HeldOutCurve held_out;
  RunTotals totals;
  std::optional<LogitAdjustment> adjustment;  // chosen after the last epoch
  TrainingClock clock;
  // Of a stream: the segment that has come for the next pass, and what the shell was asked for.
  std::optional<StreamSegment> next_segment;
  std::optional<StreamEnd> stream_end;
  uint32_t segment_wanted = 0;
  uint32_t segment_evaluated = 0;
  Outbox out;
};

// The losses of the model tell from here on whether it becomes worse; those before are of another
// one.
void WatchLosses(RunState* run);
// The run has chosen `settings`, and no others: `config` is `base` with them.
void UseSettings(Overrides settings, RunContext* run);

}  // namespace dslide
