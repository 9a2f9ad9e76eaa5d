#include "scheduler/base/outbox.h"

#include <utility>

namespace dslide {

Outbox::Outbox(uint64_t ledger_entries) : ledger_entries_(ledger_entries) {
  peer_lines_.fill(LineLimit(kPeerLines));
}

void Outbox::Send(const Member& to, Body body) { Reply(to.peer, 0, std::move(body)); }

void Outbox::SendToAll(const Roster& roster, Role role, Body body) {
  const SharedBody shared(std::move(body));
  for (const Member* member : roster.Of(role)) Post(member->peer, 0, shared);
}

void Outbox::SendToSeated(const Roster& roster, Body body) {
  const SharedBody shared(std::move(body));
  for (const Member* server : roster.Seated()) Post(server->peer, 0, shared);
}

void Outbox::Reply(const Member& to, const Message& request, Body body) {
  Reply(to.peer, request.envelope.sequence, std::move(body));
}

void Outbox::Reply(const PeerId& to, uint64_t request, Body body) {
  Post(to, request, std::move(body));
}

void Outbox::Post(const PeerId& to, uint64_t request, SharedBody body) {
  effects_.send.push_back({to, std::move(body), request});
}

void Outbox::Decide(std::string line, int64_t now_ms) {
  Notice(line);
  journal_.AddDecision(std::move(line), now_ms);
}

void Outbox::Notice(PeerLine kind, std::string line, int64_t now_ms) {
  auto admitted = peer_lines_[static_cast<size_t>(kind)].Admit(std::move(line), now_ms);
  if (admitted) Notice(*std::move(admitted));
}

void Outbox::Decide(PeerLine kind, std::string line, int64_t now_ms) {
  auto admitted = peer_lines_[static_cast<size_t>(kind)].Admit(std::move(line), now_ms);
  if (admitted) Decide(*std::move(admitted), now_ms);
}

void Outbox::Tune(PeerLine kind, std::string line, int64_t now_ms) {
  auto admitted = peer_lines_[static_cast<size_t>(kind)].Admit(std::move(line), now_ms);
  if (!admitted) return;
  effects_.tunings.push_back(*admitted);
  journal_.AddDecision(*std::move(admitted), now_ms, true);
}

void Outbox::DecideOnce(std::string line, int64_t now_ms) {
  if (!journal_.decisions().empty() && journal_.decisions().back().text == line) return;
  Decide(std::move(line), now_ms);
}

void Outbox::Depart(const Member& member, bool lost, std::string why, int64_t now_ms) {
  if (lost && member.role == Role::kServer && member.seated)
    effects_.lost_servers.push_back(member.name);
  journal_.AddDeparture(member, lost, std::move(why), now_ms);
}

void Outbox::Record(LedgerEntry entry) {
  effects_.ledger.push_back(std::move(entry));
  ledger_entries_++;
}

void Outbox::ReplyWithStatus(const PeerId& to, uint64_t request) {
  effects_.status_wanted.push_back({to, Body(StatusReply()), request});
}

SchedulerEffects Outbox::Drain() { return std::exchange(effects_, SchedulerEffects()); }

}  // namespace dslide
