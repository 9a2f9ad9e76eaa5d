// A change of the plan within a generation, step by step.
//
//   kIdle --> kCopying --> kPausing --> kSwitching --> kIdle
//
//   kCopying    targets copy a wave of slots while training goes on (MoveSlots, MoveReady)
//   kPausing    the change waits: for the end of a checkpoint or step, then for the batches in
//               flight, which would begin again with another plan. Workers begin no batch meanwhile
//   kSwitching  the plan was sent; servers copy what has changed since, and say when they have
//               their slots (Ready)
//
// A change without slots to copy begins with kPausing, and each wait is skipped when there is
// nothing to wait for. The core wants a change by calling Advance() on every tick. A wait that is
// not asked for on a tick ends with the next one: workers go on.
//
// Lives as long as a generation of plans. Pure; used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "scheduler/balance/balancer.h"
#include "scheduler/base/outbox.h"
#include "scheduler/members/roster.h"

namespace dslide {

class PlanChange {
 public:
  enum class State { kIdle, kCopying, kPausing, kSwitching };

  // What a change waits for, as it is now.
  struct Conditions {
    // No server writes a checkpoint, all have the slots of the plan in force, and none holds
    // anything of a step that does not count.
    bool quiet = true;
    // Batches wait for their steps, so a quiet cluster has none in flight.
    bool in_steps = false;
    double batch_ms = 0;           // Roster::BatchMs()
    int64_t longest_pause_ms = 0;  // for the batches in flight
  };

  State state() const;
  bool paused() const { return pause_.has_value(); }
  bool switching() const { return switch_.has_value(); }
  bool has_wave() const { return wave_.has_value(); }
  size_t moving_slots() const { return wave_ ? wave_->slots.moves.size() : 0; }
  // A change is wanted that the cluster is not quiet enough for: no further step should begin.
  bool wanted() const { return wanted_ms_.has_value(); }
  bool wanted_at(int64_t now_ms) const { return wanted_ms_ == now_ms; }  // in this very tick
  // How long workers should begin no batch; 0: they need not pause.
  uint32_t PauseMs(int64_t now_ms) const;

  // Begins a wave. REQUIRES kIdle or kPausing without a wave.
  void BeginWave(SlotWave slots, const Plan& plan, const Roster& roster, int64_t now_ms,
                 Outbox* out);
  void OnMoveReady(Incarnation target, const MoveReady& ready);
  // A step towards the next plan, on each tick on which one is wanted. True: it may come now.
  // If paused() changes, the caller sends the workers their orders (PauseMs).
  bool Advance(const Conditions& conditions, const Roster& roster, int64_t now_ms, Outbox* out);
  // On every tick, before Advance(): ends a pause that was not asked for since the last call, and
  // the wish for a change that is older than `patience_ms`.
  void EndUnwanted(int64_t patience_ms, int64_t now_ms);
  // Gives the wave up: targets forget what they have copied.
  void Cancel(const Roster& roster, Outbox* out);

  // A worker has no batch in flight.
  void OnIdle(Incarnation worker);

  // The plan when the slots of the wave have moved. REQUIRES has_wave().
  Plan PlanAfterWave(const Plan& before) const;
  // The next plan is about to be published; `before`: the plan in force. Takes the place of a
  // switch that did not end because a server was lost.
  void BeginSwitch(const Plan& before, int64_t now_ms);
  // A server has the slots of the plan. Once all have: what the switch cost.
  std::optional<PlanSwitchReport> OnReady(const Ready& ready, const Plan& plan,
                                          const Roster& roster, Outbox* out);
  // A server was lost that others copy from.
  bool SourceGone(const Roster& roster) const;

  void CheckInvariants() const;

 private:
  // Slots that are to move.
  struct Wave {
    uint64_t id = 0;
    SlotWave slots;
    std::map<Incarnation, MoveSlots> orders;
    std::set<Incarnation> waiting;  // for their MoveReady
    int64_t began_ms = 0;
    int64_t sent_ms = 0;
  };
  // Workers begin no batches.
  struct Pause {
    std::set<Incarnation> waiting;  // workers that may have batches in flight
    int64_t since_ms = 0;
    int64_t until_ms = 0;
    double batch_ms = 0;  // when it began
    bool wanted = true;   // since the last tick
  };
  // Not all servers have taken the plan up yet.
  struct Switch {
    std::set<Incarnation> sources;  // that others copy from
    PlanSwitchReport report;
  };
  bool AdvanceCopies(const Roster& roster, int64_t now_ms, Outbox* out);
  bool NothingInFlight(const Conditions& conditions, const Roster& roster, int64_t now_ms);

  std::optional<Wave> wave_;
  std::optional<Pause> pause_;
  std::optional<Switch> switch_;
  std::optional<int64_t> wanted_ms_;  // last
  uint64_t next_wave_ = 1;
};

}  // namespace dslide
