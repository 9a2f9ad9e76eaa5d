// The slots of a server that come and go while training goes on: pre-copy live migration (Clark et
// al., NSDI 2005), between servers and between the executors of one server.
//
// After MoveSlots this server copies slots in the background (SlotFetcher) while their owners go on
// training. The next plan of the generation begins the plan switch: slots that leave stay readable;
// slots that come are copied completely, then attached to the model. This server asks the old
// owners to release them until they answer.
//
// Invariants: only a move that has begun is ready; a switch comes from an earlier plan; while slots
// are attached, all copies are complete.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/messages.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"
#include "server/migration/slot_fetcher.h"

namespace dslide {

class SlotMigration {
 public:
  static constexpr size_t kMaxPuts = 32;  // parts of slots before the executors; then no pull

  // What a slot job's result means for the server.
  enum class Outcome {
    kGoesOn,
    kAttached,  // all slots of the plan are here: TakeSwitch() ends the plan switch
    kLost,      // a slot that the plan gives to this server could not be taken
  };
  // A plan switch that has ended.
  struct Switched {
    uint64_t moved_bytes = 0;  // that were sent for the slots that came
    uint64_t slot_bytes = 0;   // of their rows, each once
    uint32_t stall_us = 0;     // from the plan's arrival
  };

  // Shares the seat's slots evenly among the executors, in order. The slots of each.
  std::vector<std::vector<SlotId>> Place(const ServerSeat& seat);

  // The scheduler's order to copy slots, which it repeats until MoveReady. REQUIRES that no plan
  // switch is in progress and that the seat has slots.
  void OnMoveSlots(const MoveSlots& move, const ServerSeat& seat, int64_t now_ms,
                   ServerOutbox* out);
  // A new life of the scheduler numbers its moves from 1 again.
  void ForgetMove();

  // The plan of `seat` has replaced `before`, under which this server had the slots `had`. Rows of
  // the slots that leave do not change from here on. Slots change executors by `slot_work`, see
  // LoadMeter. REQUIRES that no plan switch is in progress; Advance() goes on with this one.
  void BeginSwitch(const Plan& before, const std::vector<SlotId>& had, const ServerSeat& seat,
                   const std::map<SlotId, double>& slot_work, int64_t now_ms, ServerOutbox* out);
  bool switching() const { return switch_.has_value(); }
  // The plan before, while its successor's slots are still on their way. REQUIRES switching().
  uint32_t switching_from() const { return switch_->from_version; }
  // Ends the switch, and asks the old owners to release their slots. REQUIRES that Complete()
  // returned kAttached.
  Switched TakeSwitch(const ServerSeat& seat, int64_t now_us, ServerOutbox* out);

  // Sends what is due, and goes on with the move or the switch.
  void Advance(const ServerSeat& seat, int64_t now_ms, ServerOutbox* out);
  // Sends what is due.
  void Pull(const ServerSeat& seat, int64_t now_ms, ServerOutbox* out);

  // Another server's answer to a pull or a release.
  void OnAnswer(Message message, const ServerSeat& seat, int64_t now_ms, ServerOutbox* out);
  // The executors' parts of a pull between them, and of a slot job.
  void Complete(const OwnPull& own, std::vector<JobReply> parts, const ServerSeat& seat,
                int64_t now_ms, ServerOutbox* out);
  Outcome Complete(const SlotJob& job, const std::vector<JobReply>& parts, const ServerSeat& seat,
                   int64_t now_ms, ServerOutbox* out);

  // Another server has taken a slot from this one, or does not want it any more.
  void OnRelease(const Envelope& envelope, SlotId slot, const ServerSeat& seat, ServerOutbox* out);
  // Whether another server still copies a slot that has left.
  bool keeps_slots_for_others() const { return !leaving_.empty(); }
  // Whether a slot comes from the server that is meant, or that server has to release one.
  bool MayAsk(const std::function<bool(const PlanServer&)>& is_it) const;

  void CheckInvariants(const ServerSeat& seat) const;

 private:
  struct Switch {
    uint32_t from_version;
    int64_t began_us;
    std::vector<SlotId> arriving;
    bool attaching = false;  // they are all here
  };
  struct Departure {
    Incarnation to;
    uint32_t plan_version;  // with which it left; a release by an earlier one is of an earlier move
  };
  struct Release {
    PlanServer to;
    int64_t next_ms;
    uint32_t tries;
  };
  using Places = std::vector<std::pair<SlotId, uint32_t>>;  // slots and their executors

  Places PlanInnerMoves(const std::vector<SlotId>& staying, const ServerSeat& seat,
                        const std::map<SlotId, double>& slot_work) const;
  void Reserve(const std::vector<SlotId>& slots, const Plan& from, const ServerSeat& seat,
               ServerOutbox* out);
  void MakeRoom(const Places& places, ServerOutbox* out);
  void GiveUp(const std::vector<SlotId>& slots, const ServerSeat& seat, ServerOutbox* out);
  void TakeRows(SlotRows rows, const ServerSeat& seat, int64_t now_ms, ServerOutbox* out);
  Outcome Fail(const SlotJob& job, const std::string& why, const ServerSeat& seat,
               ServerOutbox* out);
  void ReleaseSlot(SlotId slot, ServerOutbox* out);

  std::vector<uint32_t> executor_of_;  // [V] of this server's slots, and of those that come
  SlotFetcher fetcher_;
  uint64_t move_ = 0;  // the last MoveSlots; 0: none
  bool move_ready_ = false;
  std::optional<Switch> switch_;
  std::map<uint64_t, SlotId> pulls_;     // sent to other servers, by sequence
  size_t open_puts_ = 0;                 // parts of slots that the executors have before them
  std::map<SlotId, Release> release_;    // slots that came, until their old owners know
  std::map<SlotId, Departure> leaving_;  // slots that left, until their new owners have them
};

}  // namespace dslide
