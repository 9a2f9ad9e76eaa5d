#include "server/core/generation.h"

#include <fmt/core.h>

#include "common/base/check.h"
#include "common/base/overloaded.h"
#include "server/base/events.h"
#include "server/executor/gather.h"

namespace dslide {

bool ServerGeneration::IsCurrent(const Envelope& envelope) const {
  return IsInGeneration(next_plan ? *next_plan : seat.plan, envelope.plan_version);
}

// The slot map decides first, then the request table.
Verdict ServerGeneration::Admit(Message* message, int64_t now_us, ServerOutbox* out) {
  const auto refuse = [](ErrorCode code, std::string why) {
    return verdict::Refuse{{code, std::move(why)}};
  };
  const uint32_t named = message->envelope.plan_version;
  const uint32_t own = seat.plan.version;
  const auto* pull = std::get_if<SlotPull>(&message->body);
  if (named < own) {
    return verdict::Refuse{{ErrorCode::kStalePlan, fmt::format("the slot plan is {}", own)}, true};
  }
  const bool joins = !loaded && own != GenerationOf(seat.plan);
  if (!loaded && !joins) return refuse(ErrorCode::kRefused, "the slots are being loaded");
  if (named > own || joins || (slots.switching() && pull == nullptr)) {
    if (named - own > RequestTable::kMostPlansAhead) {
      return refuse(ErrorCode::kRefused,
                    fmt::format("slot plan {} is too far from {}", named, own));
    }
    if (pull != nullptr) return verdict::Keep();
    std::optional<ErrorReply> why = requests.WhyNotKept(message, seat, out);
    return why ? Verdict(verdict::Refuse{*std::move(why)}) : verdict::Keep();
  }
  if (pull != nullptr) return AdmitPull(*message, *pull);
  if (without_slots()) return refuse(ErrorCode::kStalePlan, "this server has no slots any more");
  return requests.Admit(message, seat, now_us, out);
}

// From another server, which has the sender's incarnation in the plan.
Verdict ServerGeneration::AdmitPull(const Message& message, const SlotPull& pull) const {
  if (pull.slot < seat.plan.slot_owner.size() &&
      HasServer(seat.plan, message.envelope.incarnation)) {
    return verdict::Serve();
  }
  return verdict::Refuse{
      {ErrorCode::kRefused, "SlotPull: no such slot, or not from a server of the plan"}};
}

void ServerGeneration::OnRequest(const PeerId& peer, Message message, int64_t now_us,
                                 ServerOutbox* out) {
  const Envelope envelope = message.envelope;
  const auto* pull = std::get_if<SlotPull>(&message.body);
  if (pull != nullptr && pull->release && loaded) {
    return OnRelease(peer, envelope, {pull->slot}, now_us, out);
  }
  std::visit(Overloaded{
                 [&](const verdict::Serve&) { Serve(peer, std::move(message), now_us, out); },
                 [&](const verdict::Keep&) {
                   for (const RequestTable::Early& early :
                        requests.KeepEarly({peer, std::move(message), now_us})) {
                     out->Answer(early.peer, early.message.envelope.sequence,
                                 ErrorReply{ErrorCode::kStalePlan, "too many requests wait"});
                   }
                 },
                 [](const verdict::Ignore&) {},
                 [&](const verdict::Repeat& repeat) { out->SendToPeer(peer, repeat.reply); },
                 [&](const verdict::Refuse& refuse) {
                   if (refuse.with_plan) out->Answer(peer, 0, seat.plan);
                   out->Answer(peer, envelope.sequence, refuse.why);
                 },
             },
             Admit(&message, now_us, out));
}

void ServerGeneration::Serve(const PeerId& peer, Message message, int64_t now_us,
                             ServerOutbox* out) {
  const auto* pull = std::get_if<SlotPull>(&message.body);
  if (pull == nullptr) return requests.Serve(peer, std::move(message), seat, now_us, out);
  const Envelope& envelope = message.envelope;
  Asker asker{peer, envelope.incarnation, envelope.sequence, WirePrecision::kFp32, now_us};
  out->Submit(PeerRequest{std::move(asker), RequestRound(*pull)});
}

void ServerGeneration::OnRelease(const PeerId& peer, const Envelope& envelope, SlotId slot,
                                 int64_t now_us, ServerOutbox* out) {
  slots.OnRelease(envelope, slot, seat, out);
  out->Answer({peer, envelope.incarnation, envelope.sequence, WirePrecision::kFp32, now_us}, Ack{},
              now_us);
  LeaveIfEmpty(out);
}

void ServerGeneration::TakeEarly(ServerOutbox* out) {
  for (RequestTable::Early& early : requests.TakeEarly()) {
    OnRequest(early.peer, std::move(early.message), early.arrived_us, out);
  }
}

void ServerGeneration::LeaveIfEmpty(ServerOutbox* out) const {
  if (!without_slots() || slots.switching() || out->exits()) return;
  if (slots.keeps_slots_for_others()) return;
  out->Notice({event::kServerEmpty, "all slots of this server are with others"});
  out->Exit(Status());
}

bool ServerGeneration::OnLoaded(const Parts& parts, ServerOutbox* out) {
  ready = {seat.plan.version, 0, 0};
  for (const JobReply& part : parts) {
    if (const auto* error = std::get_if<Error>(&part)) {
      // The scheduler decides: it may have gone on without this server, and pruned the checkpoint.
      out->Notice({event::kLoadFailed, error->message});
      load_error = ErrorReply{ErrorCode::kRefused, error->message};
      out->ToScheduler(*load_error);
      return false;
    }
    ready.rows += std::get<Loaded>(part).rows;
    ready.memory_bytes += std::get<Loaded>(part).memory_bytes;
  }
  loaded = true;
  out->ToScheduler(ready);
  TakeEarly(out);
  return true;
}

void ServerGeneration::BeginPlanSwitch(const Plan& plan, const Config& config,
                                       std::optional<uint32_t> index,
                                       const std::map<SlotId, double>& slot_work, int64_t now_ms,
                                       ServerOutbox* out) {
  if (saver.saving() || slots.switching()) {
    next_plan = plan;
    return;
  }
  const std::vector<SlotId> had = seat.OwnSlots();
  const Plan before = std::exchange(seat.plan, plan);
  seat.index = index;
  seat.config = config;
  out->set_plan_version(plan.version);
  saver.ForgetLast();
  requests.RefuseWaiting(plan.version, now_ms * 1000, out);
  slots.BeginSwitch(before, had, seat, slot_work, now_ms, out);
  TakeEarly(out);  // pulls of those that have switched plans already
  slots.Advance(seat, now_ms, out);
}

void ServerGeneration::CompletePlanSwitch(int64_t now_us, ServerOutbox* out) {
  const SlotMigration::Switched switched = slots.TakeSwitch(seat, now_us, out);
  ready.plan_version = seat.plan.version;
  ready.rows = seat.OwnRows();
  ready.moved_bytes = switched.moved_bytes;
  ready.slot_bytes = switched.slot_bytes;
  ready.stall_us = switched.stall_us;
  if (seat.index) out->ToScheduler(ready);
  LeaveIfEmpty(out);
  slots.Pull(seat, now_us / 1000, out);
  TakeEarly(out);
}

void ServerGeneration::OnResult(PeerRequest request, Parts parts, int64_t now_us,
                                ServerOutbox* out) {
  requests.Complete(std::move(request), std::move(parts), seat, now_us, out);
}

void ServerGeneration::OnResult(const SchedulerRequest& asked, Parts parts, int64_t,
                                ServerOutbox* out) {
  out->ToScheduler(GatherReplies(*asked.request, BodiesOf(std::move(parts))));
}

void ServerGeneration::OnResult(const OwnPull& pull, Parts parts, int64_t now_us,
                                ServerOutbox* out) {
  slots.Complete(pull, std::move(parts), seat, now_us / 1000, out);
}

void ServerGeneration::OnResult(const SnapshotMarking&, const Parts& parts, int64_t,
                                ServerOutbox* out) {
  saver.OnMarked(parts, out);
}

void ServerGeneration::OnResult(const SnapshotDropping& drop, const Parts&, int64_t,
                                ServerOutbox* out) {
  if (drop.gives_up) saver.OnDropped(out);
}

void ServerGeneration::CheckInvariants(const ServerOutbox& out) const {
  DSLIDE_CHECK(seat.plan.version == out.plan_version());
  DSLIDE_CHECK(seat.self == out.link().incarnation());
  seat.CheckInvariants();
  slots.CheckInvariants(seat);
  requests.CheckInvariants(seat);
  saver.CheckInvariants();

  DSLIDE_CHECK(loaded || load_error || out.jobs().size() > 0);
  DSLIDE_CHECK(!loaded || !load_error);
  if (!loaded) {
    DSLIDE_CHECK(seat.index && !next_plan && !slots.switching() && !saver.saving());
    DSLIDE_CHECK(!requests.committed() && requests.waiting() == 0);
    return;
  }
  DSLIDE_CHECK(!saver.saving() || settled());
  DSLIDE_CHECK(!slots.switching() || requests.waiting() == 0);
  DSLIDE_CHECK(slots.switching() || ready.plan_version == seat.plan.version);
  DSLIDE_CHECK(!next_plan || slots.switching() || saver.saving() || saver.orphaned());
  DSLIDE_CHECK(!next_plan ||
               (next_plan->version > seat.plan.version && seat.IsSameGeneration(*next_plan)));
}

}  // namespace dslide
