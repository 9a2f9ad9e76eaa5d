// Who takes part in a run, and in the plan: the roster, the servers that may not join, the seats
// and the measured loads, which change together when a member comes or goes.
//
// The core reads and changes the parts directly. The functions here are those that touch several.
// Pure; used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "scheduler/balance/balancer.h"
#include "scheduler/balance/slot_loads.h"
#include "scheduler/base/outbox.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/members/admission.h"
#include "scheduler/members/join_limits.h"
#include "scheduler/members/newcomer_rest.h"
#include "scheduler/members/roster.h"
#include "scheduler/plan/seats.h"

namespace dslide {

// The ways in which a run can continue after the loss of servers. DecideSeats() chooses one, and
// log lines name it.
struct LossOptions {
  bool without_them = false;          // they had no slots, and no step waits for their part
  std::vector<SeatedServer> servers;  // of the next generation, if nobody returns
  bool enough = false;                // these servers need not wait for cluster.takeover_s
};

// A process asks to take part.
struct JoinRequest {
  const PeerId& from;
  const Message& message;  // REQUIRES a Join
  bool reached = false;    // the scheduler has reached it at the address that it advertises
  bool run_finished = false;
  bool banned = false;  // from this run
};

struct JoinCase;

struct Cluster {
  // What became of a Join.
  struct Joined {
    Member* member = nullptr;  // null: refused, or not reached yet
    bool is_new = false;       // to the roster
  };

  // `live`: the servers of the ledger's plan may hold its state.
  Cluster(const RunInputs& inputs, bool live, int64_t now_ms);

  // Refuses the process, dials a server that was not reached, or adds it to the roster. The caller
  // welcomes a server that has a seat.
  Joined OnJoin(const JoinRequest& request, const RunContext& run, int64_t now_ms, Outbox* out);
  // Dials servers that ask to join, and refuses those that were not reached in time.
  void TendApplicants(int64_t now_ms, Outbox* out);

  // A member is gone. `lost`: it died. `leases`: how many a worker gave back. The seat of a server
  // becomes vacant.
  void Drop(const Member& member, bool lost, const std::string& why, size_t leases, int64_t now_ms,
            Outbox* out);
  // Servers of the plan that do not do their part although the scheduler hears them. The others do
  // not wait for them to come back as they were.
  void LeaveOut(const std::vector<const Member*>& servers, const std::string& why, int64_t now_ms,
                Outbox* out);
  // Servers of the plan with slots: those that the steps of synchronous training wait for.
  std::vector<const Member*> Owners() const;
  // REQUIRES a plan with vacant seats.
  LossOptions OptionsAfterLoss() const;
  // Servers of the plan that are not ready while others are.
  std::vector<const Member*> Unready() const;
  // Servers of the plan that no worker hears, although workers have batches in flight and other
  // servers answer them. A server that has taken gradients within `silence_ms` is slow, not silent.
  std::vector<const Member*> Unheard(int64_t silence_ms, int64_t now_ms) const;

  // Newcomers that have slots and have not proved themselves, if no batch has been done for
  // `silence_ms` since they were ready, in which workers had some in flight; for a second, or the
  // time of four batches if that is longer, if a worker names the newcomer as one that does not
  // answer as it should, or `doubted`: what workers report is not believed since it came. Call it
  // on every tick: time in which nobody has batches in flight is not counted.
  std::vector<const Member*> Stalling(int64_t silence_ms, bool doubted, int64_t now_ms);
  // Whether a server of the plan has no slots, and has not proved itself: it may get some soon.
  bool HasUntried() const;

  // "have 1 of 2 servers and 0 workers, waiting for 1 more server" and the like.
  std::string WaitingLine(const ClusterConfig& config) const;
  // The loads under the plan in force.
  Balancer::View Loads(bool training) const;
  // Forgets the loads of servers that are neither in the plan nor in the roster. Returns those that
  // are.
  std::set<Incarnation> ForgetTheGone();

  // Whether the plan takes no newcomers at the moment (newcomer_rest).
  bool resting() const { return resting_; }

  Roster roster;
  JoinRate join_rate;
  Admission admission;
  Seats seats;
  SlotLoads loads;
  NewcomerRest newcomer_rest;

 private:
  static constexpr size_t kMostFenced = 1 << 16;

  Member& Admit(const JoinCase& asked, Outbox* out);
  // Dismisses the observer that has been silent the longest if one more observer would be too many:
  // a process that keeps connections open must not keep others from the status.
  void MakeRoomForObserver(int64_t now_ms, Outbox* out);
  std::string KeyOf(Incarnation member) const;
  std::string OwnKeyOf(Incarnation server) const;
  // Servers of the plan, those with slots or those without.
  std::vector<const Member*> InPlan(bool with_slots) const;
  // Those of them that have not proved themselves.
  std::vector<const Member*> Unproven(bool with_slots) const;

  bool resting_ = false;

  // The continuation if nobody returns to the vacant seats, for log lines and the status.
  enum class Sequel {
    kGoOnWithout,  // they had no slots, and no step waits for them
    kReplaced,     // a spare takes a seat, and a generation begins
    kShared,       // a generation of those that are left begins at once
    kSharedLater,  // the same, after cluster.takeover_s
    kStop,
  };
  Sequel SequelOfLoss() const;
  std::string ReplacementLine() const;
  std::string VacancyLine(const std::string& missing) const;

  int64_t looked_ms_ = 0;  // when Stalling() was last called
  int64_t asked_ms_ = 0;   // how long batches were in flight since the last one was done
  bool keyed_;
  bool synchronous_;
  size_t servers_;
  uint32_t takeover_s_;
  uint32_t join_timeout_s_;
  // The last lives of workers that servers were told to drop. Servers refuse them for good, so they
  // must not join again: one whose JoinReply was lost may be given up before it knows that it is
  // in.
  std::set<Incarnation> fenced_;
  std::deque<Incarnation> fenced_order_;
};

}  // namespace dslide
