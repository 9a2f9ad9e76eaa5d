// The scheduler's decisions: members, slot plans, leases, evaluations, checkpoints, recovery.
//
// A pure core: messages and time go in, messages and effects come out; it owns no socket, file or
// thread. It answers messages itself or hands them on:
//
//   RunState          what the scheduler knows of the run, in parts:
//     Cluster           who takes part: roster, newcomers, the plan's seats, measured loads
//     Balancer          when slots move
//     Advisor           what every member should do
//     Checkpointer      the checkpoint in progress, and the newest one
//     Generation        what lives as long as a generation of plans:
//       Pass              the epoch or evaluation in progress, and what counts
//       PlanChange        slots that move, the pause of the workers, the switch to the next plan
//     RunTotals, TrainingClock   what this scheduler has seen of the run
//     Outbox            what the present call wants done, and the journal of decisions
//
// and functions across them, of which each file includes only those below it:
//
//   replanning.h      changes of plan while training goes on
//   seating.h         members that come and go, the plan's seats
//   run_course.h      from pass to pass, checkpoints
//   recovery.h        generations
//   setting_choice.h, stream_course.h, plan_switch.h, run_end.h
//
// The phases of a run are in run_phase.h. A plan assigns slots to servers. Plans of one generation
// carry the same state on: slots move to balance the load, to a server that joins, and from one
// that is to leave, while training goes on. When a server of the plan is lost the pass is
// interrupted. If the server comes back as it was, the pass goes on. Otherwise a spare takes its
// seat, or after cluster.takeover_s the others share its slots: a plan of a new generation, with
// which the servers and what counts go back to the newest complete checkpoint together. What counts
// is in the ledger (scheduler/ledger/ledger.h) before any message says so, so a new life of the
// scheduler goes on where the last one died.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/base/actions.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/core/run_state.h"
#include "scheduler/core/run_status.h"

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
  // Whether the socket of an action::Probe is still of use.
  bool AwaitsProbe(Incarnation server) const { return run_.cluster.admission.Awaits(server); }
  // By which key a member has joined.
  void NameKey(Incarnation member, const std::string& key);
  // Excludes a member, as if it had left.
  Effects Expel(Incarnation member, const std::string& why, int64_t now_ms);
  // Bytes that are not a message have come by a connection. A member that sends many is excluded.
  Effects OnMalformed(const PeerId& from, int64_t now_ms);
  // What a member is told again now, so that its connection shows whether it is broken.
  HeartbeatReply OrdersFor(const Member& member, int64_t now_ms) const;
  // The outcome of action::WriteManifest.
  Effects OnManifest(const Status& written, int64_t now_ms);
  // A checkpoint waits for room (checkpoint.quota_mb), which the shell finds or does not.
  // `problem`: why there is none, for those who have asked for a checkpoint.
  bool WantsRoom(int64_t now_ms) const {
    return run_.InPass() && run_.checkpointer.WantsRoom(now_ms);
  }
  Effects OnRoom(bool fits, std::vector<std::string> kept, const std::string& problem,
                 int64_t now_ms);
  // Checksum of the preprocessor that the checkpoint in the making needs; 0: there is none.
  uint64_t PreprocessorToBeSaved() const { return run_.checkpointer.preprocessor(); }
  // The checkpoint that a hook reads stays; "": none.
  void HoldCheckpoint(const std::string& name) { run_.checkpointer.Hold(name); }
  std::vector<std::string> HeldCheckpoints() const { return run_.checkpointer.held(); }
  Effects OnLedgerFailure(const Status& status, int64_t now_ms);
  // Stops the run while the ledger has no room. The run ends with its newest checkpoint.
  Effects StopWithoutLedger(int64_t now_ms);
  // What a message of this core took on the wire.
  void CountSent(const Body& body, size_t bytes) { run_.totals.CountSent(body, bytes); }
  // The segment that action::FetchSegment asked for, or the end of the stream.
  Effects OnSegment(StreamSegment segment, int64_t now_ms);
  Effects OnStreamEnd(StreamEnd end, int64_t now_ms);
  // SIGTERM or SIGINT: checkpoint what there is, then stop with exit code 85.
  Effects RequestStop(int64_t now_ms);

  Phase phase() const { return run_.Phase(); }
  // REQUIRES phase() == kFinished. Not ok: why the run ended early.
  const Status& outcome() const { return run_.outcome; }
  // Everybody has said goodbye after Shutdown.
  bool AllLeft() const {
    return run_.roster().Count(Role::kServer) == 0 && run_.roster().Count(Role::kWorker) == 0;
  }
  RunStatus Describe(int64_t now_ms) const { return dslide::Describe(run_, now_ms); }

  const RunContext& run() const { return run_.inputs; }
  const Plan& plan() const { return run_.plan(); }
  uint32_t plan_version() const { return plan().version; }
  const Roster& roster() const { return run_.roster(); }

 private:
  void LetGo(const Member& member, const std::string& why, int64_t now_ms);
  // Whether a message names a slot map of the present generation.
  bool IsCurrent(const Message& message) const;
  // Whether it names the slot map in force.
  bool IsOfThisPlan(const Message& message) const;
  // Whether it is current, of an assigned server, and the run has not ended.
  bool IsOfSeat(const Member& server, const Message& message) const;
  // A message of a member, by its body. The member may not be in the roster any more afterwards.
  void On(Member* member, const Ready& ready, const Message& message, int64_t now_ms);
  void On(Member* member, const Heartbeat& heartbeat, const Message& message, int64_t now_ms);
  void On(Member* member, const Leave& leave, const Message& message, int64_t now_ms);
  void On(Member* member, const LeaseRequest& asked, const Message& message, int64_t now_ms);
  void On(Member* member, const BatchDone& done, const Message& message, int64_t now_ms);
  void On(Member* member, const CheckpointDone& saved, const Message& message, int64_t now_ms);
  void On(Member* member, const CheckpointNow& asked, const Message& message, int64_t now_ms);
  void On(Member* member, const StepsCommitted& steps, const Message& message, int64_t now_ms);
  void On(Member* member, const MoveReady& moved, const Message& message, int64_t now_ms);
  void On(Member* member, const DrainServer& drain, const Message& message, int64_t now_ms);
  void On(Member* member, const StatusRequest& asked, const Message& message, int64_t now_ms);
  void On(Member* member, const ErrorReply& error, const Message& message, int64_t now_ms);
  // Messages for TrustPolicy, and those that the scheduler refuses.
  template <typename Other>
  void On(Member* member, const Other& body, const Message& message, int64_t now_ms);
  void SlowDown(const std::string& contributor, const LossOutliers::Outlier& outlier,
                int64_t now_ms);
  void Settle(TrustPolicy::Sequel sequel, int64_t now_ms);
  void ServePending(int64_t now_ms);
  void Advise(int64_t now_ms);
  void SendAgain(int64_t now_ms);
  // Ends every public call.
  Effects Drain();

  RunState run_;
  bool disk_named_ = false;  // a notice has said that rows are on a disk
};

}  // namespace dslide
