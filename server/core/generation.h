// What lives as long as a generation of plans: the parts of a ServerCore that belong to its slots.
//
// Plans of one generation carry the same state on. With the next one the server keeps its slots
// except those that moved (SlotMigration); requests that come before it is ready for a plan wait.
//
// Invariants: one plan switch or one checkpoint at a time, and the next plan waits for either;
// without loaded slots there is nothing to move, to save or to commit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/messages.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"
#include "server/core/request_table.h"
#include "server/core/saver.h"
#include "server/core/verdict.h"
#include "server/migration/slot_migration.h"

namespace dslide {

struct ServerGeneration {
  using Parts = std::vector<JobReply>;  // [executors], of one job

  ServerGeneration(ServerSeat s, std::string checkpoints, RequestLimits limits)
      : seat(std::move(s)), requests(limits), saver(std::move(checkpoints)) {}

  // The plan is without this server; others may still copy what it had.
  bool without_slots() const { return !seat.index; }
  // All slots that the plan gives this server are here.
  bool settled() const { return loaded && !slots.switching() && !without_slots(); }
  // Whether a message was sent under a plan of this generation. What was said under an earlier one
  // holds.
  bool IsCurrent(const Envelope& envelope) const;

  // A request of this run.
  void OnRequest(const PeerId& peer, Message message, int64_t now_us, ServerOutbox* out);

  // The executors have loaded the slots. False: some could not, and the scheduler knows.
  bool OnLoaded(const Parts& parts, ServerOutbox* out);

  // The next plan: what workers have under way is begun again. `index`: of this server in it.
  // `slot_work`: see LoadMeter.
  void BeginPlanSwitch(const Plan& plan, const Config& config, std::optional<uint32_t> index,
                       const std::map<SlotId, double>& slot_work, int64_t now_ms,
                       ServerOutbox* out);
  // All slots of the plan are here.
  void CompletePlanSwitch(int64_t now_us, ServerOutbox* out);

  // The results of jobs.
  void OnResult(PeerRequest request, Parts parts, int64_t now_us, ServerOutbox* out);
  void OnResult(const SchedulerRequest& asked, Parts parts, int64_t now_us, ServerOutbox* out);
  void OnResult(const OwnPull& pull, Parts parts, int64_t now_us, ServerOutbox* out);
  void OnResult(const SnapshotMarking&, const Parts& parts, int64_t now_us, ServerOutbox* out);
  void OnResult(const SnapshotDropping& drop, const Parts& parts, int64_t now_us,
                ServerOutbox* out);

  void CheckInvariants(const ServerOutbox& out) const;

  ServerSeat seat;
  bool loaded = false;                   // the slots of the first plan
  std::optional<ErrorReply> load_error;  // why they could not be loaded
  Ready ready;                           // as it was sent last
  std::optional<Plan> next_plan;         // came during a plan switch or a checkpoint
  RequestTable requests;
  SlotMigration slots;
  Saver saver;

 private:
  Verdict Admit(Message* message, int64_t now_us, ServerOutbox* out);
  Verdict AdmitPull(const Message& message, const SlotPull& pull) const;
  void Serve(const PeerId& peer, Message message, int64_t now_us, ServerOutbox* out);
  void OnRelease(const PeerId& peer, const Envelope& envelope, SlotId slot, int64_t now_us,
                 ServerOutbox* out);
  void TakeEarly(ServerOutbox* out);
  void LeaveIfEmpty(ServerOutbox* out) const;
};

}  // namespace dslide
