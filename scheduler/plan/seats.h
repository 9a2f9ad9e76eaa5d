// The plan in force and its servers' seats.
//
// A seat is a server's place in the plan, by its index. A server that is lost leaves a vacant seat:
// the run waits for it to come back as it was, then for a replacement. A plan of a new generation
// (BeginGeneration) fills the seats of the checkpoint; the next plan of the same generation
// (SwitchTo) carries the state on.
//
// Invariants: there is one seat for each server of the plan. Without a live plan there are none.
//
// Pure; used by the scheduler's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "scheduler/base/outbox.h"
#include "scheduler/members/roster.h"
#include "scheduler/plan/placement.h"

namespace dslide {

// The plan without those of `unwanted` that have no slots.
// unwanted: [plan.servers]
Plan WithoutEmpty(const Plan& plan, const std::vector<bool>& unwanted);

class Seats {
 public:
  static constexpr size_t kPlansKept = 64;

  // Vacant seats, as a whole.
  struct Loss {
    bool all_gone = true;      // nobody waits any more for one of these servers to come back
    bool one_left = false;     // one of the servers said goodbye
    int64_t last_loss_ms = 0;  // when the last one was lost
  };

  // `ledger`: of the run so far. `live`: the servers of its plan may hold its state.
  Seats(const LedgerState& ledger, bool live, int64_t now_ms);

  const Plan& plan() const { return plan_; }
  // The plan in force, or an earlier one of its generation of the last kPlansKept of this life;
  // null: none of these has the version.
  const Plan* PlanOf(uint32_t version) const;
  // The plan's servers may hold its state. False before the first plan.
  bool live() const { return live_; }
  bool Has(Incarnation server) const;
  // The plan is not the first one of its generation.
  bool Switched() const;
  bool IsOfThisGeneration(uint32_t plan_version) const;
  // A server without a seat that joins again had slots in an earlier plan of this generation, of
  // which others may still be copying. `plan_version`: of its Join.
  bool HadSeat(Incarnation server, uint32_t plan_version) const;
  // Indices of the seats whose servers are not in the roster.
  std::vector<size_t> Vacant(const Roster& roster) const;
  Loss LossOf(const std::vector<size_t>& vacant, const Roster& roster, int64_t heartbeat_ms,
              int64_t now_ms) const;
  bool HaveSlots(const std::vector<size_t>& seats) const;
  // When the last seat changed: its server was lost, came back, or got a plan.
  int64_t changed_ms() const;

  // `left`: the server said goodbye, so it does not come back as it was.
  void Lose(Incarnation server, bool left, int64_t now_ms);
  void Return(Incarnation server, int64_t now_ms);

  // A plan by which the servers go back to the checkpoint in the directory `restore`.
  void BeginGeneration(const std::vector<SeatedServer>& servers, std::vector<uint16_t> slot_owner,
                       const std::string& restore, Roster* roster, int64_t now_ms);
  // The sizes of the model of the new generation. Call it before the plan is sent.
  void SetShape(ModelShape shape) { plan_.shape = std::move(shape); }
  // The settings that the run has chosen. Call it before the plan is sent.
  void SetSettings(Overrides settings) { plan_.settings = std::move(settings); }
  // The next plan of this generation: recorded, and sent to all.
  void SwitchTo(Plan next, Roster* roster, int64_t now_ms, Outbox* out);
  // The plan without these seats, which have no slots. Their servers may not come back.
  Plan GiveUp(const std::vector<size_t>& vacant);

  // Bytes of memory that the servers of the next plan lack; more servers have to come. True if that
  // has changed.
  bool SetLacking(uint64_t bytes);
  uint64_t lacking_bytes() const { return lacking_bytes_; }
  // Returns to a checkpoint since this scheduler started.
  uint32_t recoveries() const { return recoveries_; }

  // The plan in force is the first one with a server that has joined.
  void OnServersJoined(int64_t now_ms) {
    joined_version_ = plan_.version;
    joined_ms_ = now_ms;
  }
  int64_t joined_ms() const { return joined_ms_; }  // when that was
  // A worker has done a batch by the plan in force.
  void OnBatch(int64_t now_ms) {
    proven_version_ = plan_.version;
    batch_ms_ = now_ms;
  }
  // Whether any has been done in this life of the scheduler.
  bool had_batch() const { return batch_ms_ != 0; }
  // When the last one was done, or the seats last changed.
  int64_t progress_ms() const { return std::max(batch_ms_, changed_ms()); }
  // Whether slots may go to the servers that joined last: a worker has done a batch with them, or
  // there is none, or all have been idle for a while. A server that workers cannot reach is left
  // out without a loss while it has no slots.
  bool NewcomersProven(const Roster& roster, int64_t now_ms) const;

  void CheckInvariants(const Roster& roster, uint32_t slots) const;

 private:
  struct Seat {
    bool lost;          // its server is dead or has left
    int64_t since_ms;   // when it was lost, or when this life began to wait for it
    bool left = false;  // see Lose()
  };
  bool IsGone(size_t seat, const Roster& roster, int64_t heartbeat_ms, int64_t now_ms) const;

  Plan plan_;                         // version 0: none yet
  std::map<uint32_t, Plan> earlier_;  // of the same generation, by version
  bool live_ = false;
  std::vector<Seat> seats_;     // [plan_.servers]
  std::set<Incarnation> gone_;  // lost, and the generation went on without them
  uint64_t lacking_bytes_ = 0;  // of memory, for the next plan
  uint32_t recoveries_ = 0;
  uint32_t joined_version_ = 0;  // of the plan by which servers joined last
  int64_t joined_ms_ = 0;        // the same
  int64_t batch_ms_ = 0;
  uint32_t proven_version_ = 0;  // of the newest plan by which a worker has done a batch
};

}  // namespace dslide
