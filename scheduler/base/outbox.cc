#include "scheduler/base/outbox.h"

#include <utility>

#include "common/base/check.h"

namespace dslide {

Outbox::Outbox(uint64_t ledger_entries) : ledger_entries_(ledger_entries) {}

void Outbox::Send(const Member& to, Body body) { Reply(to.peer, 0, std::move(body)); }

void Outbox::SendToAll(const Roster& roster, Role role, Body body) {
  const SharedBody shared(std::move(body));
  for (const Member* member : roster.Of(role)) Add(action::Send{member->peer, shared});
}

void Outbox::SendToSeated(const Roster& roster, Body body) {
  const SharedBody shared(std::move(body));
  for (const Member* server : roster.Seated()) Add(action::Send{server->peer, shared});
}

void Outbox::Reply(const Member& to, const Message& request, Body body) {
  Reply(to.peer, request.envelope.sequence, std::move(body));
}

void Outbox::Reply(const PeerId& to, uint64_t request, Body body) {
  Add(action::Send{to, std::move(body), request});
}

std::optional<Event> Outbox::Admit(Event event, int64_t now_ms) {
  if (!event.kind->by_peers) return event;
  return peer_events_.Admit(std::move(event), now_ms);
}

void Outbox::Notice(Event event) {
  DSLIDE_CHECK(!event.kind->by_peers);
  Add(action::Log{std::move(event)});
}

void Outbox::Notice(Event event, int64_t now_ms) {
  auto admitted = Admit(std::move(event), now_ms);
  if (admitted) Add(action::Log{*std::move(admitted)});
}

void Outbox::Decide(Event event, int64_t now_ms) {
  auto admitted = Admit(std::move(event), now_ms);
  if (!admitted) return;
  Add(action::Log{*admitted});
  journal_.AddDecision(*std::move(admitted), now_ms);
}

void Outbox::DecideOnce(Event event, int64_t now_ms) {
  const auto& decisions = journal_.decisions();
  if (!decisions.empty() && decisions.back().event.text == event.text) return;
  Decide(std::move(event), now_ms);
}

void Outbox::Tune(Event event, int64_t now_ms) {
  auto admitted = Admit(std::move(event), now_ms);
  if (!admitted) return;
  Add(action::LogDebug{*admitted});
  journal_.AddDecision(*std::move(admitted), now_ms, true);
}

void Outbox::Depart(const Member& member, bool lost, std::string why, int64_t now_ms) {
  if (lost && member.role == Role::kServer && member.seated)
    Add(action::CountLostServer{member.name});
  journal_.AddDeparture(member, lost, std::move(why), now_ms);
}

void Outbox::Record(LedgerEntry entry) {
  effects_.ledger.push_back(std::move(entry));
  ledger_entries_++;
}

void Outbox::ReplyWithStatus(const PeerId& to, uint64_t request) {
  Add(action::SendStatus{to, request});
}

SchedulerEffects Outbox::Drain() { return std::exchange(effects_, SchedulerEffects()); }

}  // namespace dslide
