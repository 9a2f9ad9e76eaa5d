#include "scheduler/base/outbox.h"
#include "scheduler/base/events.h"
#include "tests/scheduler/support/actions.h"

#include <doctest/doctest.h>

namespace dslide::outbox_test {
namespace {

Member MemberAt(const PeerId& peer) {
  Member member;
  member.peer = peer;
  return member;
}

TEST_CASE("an outbox keeps the order of what is sent, and what each answers") {
  Outbox out(0);
  const Member member = MemberAt("p");
  out.Send(member, Ack{});
  out.Reply(member, {{{}, {}, 5, 0, 0}, Leave{}}, Leave{});
  const SchedulerEffects effects = out.Drain();
  REQUIRE(MessagesIn(effects).size() == 2);
  CHECK(MessagesIn(effects)[0].reply_to == 0);
  CHECK(std::holds_alternative<Ack>(*MessagesIn(effects)[0].body));
  CHECK(MessagesIn(effects)[1].reply_to == 5);
  CHECK(MessagesIn(out.Drain()).empty());
}

TEST_CASE("an outbox counts the ledger's entries over all calls") {
  Outbox out(10);
  out.Record(LedgerEpochDone{1});
  CHECK(out.ledger_entries() == 11);
  CHECK(out.Drain().ledger.size() == 1);
  out.Record(LedgerEpochDone{2});
  CHECK(out.ledger_entries() == 12);
  out.DropEntries();
  CHECK(out.Drain().ledger.empty());
}

TEST_CASE("a message to all reaches the members of the role, one to the seated its servers") {
  Roster roster(1000);
  Join join;
  join.role = Role::kServer;
  roster.Add(join, {1}, "spare", 0);
  roster.Add(join, {2}, "seated", 0).seated = true;
  join.role = Role::kWorker;
  roster.Add(join, {3}, "worker", 0);

  Outbox out(0);
  out.SendToAll(roster, Role::kServer, Ack{});
  out.SendToSeated(roster, Ack{});
  out.SendToAll(roster, Role::kWorker, Ack{});
  std::vector<PeerId> peers;
  for (const auto& sent : MessagesIn(out.Drain())) peers.push_back(sent.to);
  CHECK(peers == std::vector<PeerId>{"spare", "seated", "seated", "worker"});
}

TEST_CASE("a message to many has one body, which stays until the last has taken it") {
  Roster roster(1000);
  for (const uint64_t worker : {1, 2, 3}) {
    roster.Add(Join{}, {worker}, "p" + std::to_string(worker), 0);
  }
  Outbox out(0);
  out.SendToAll(roster, Role::kWorker, LeaseWait{7, false});
  SchedulerEffects effects = out.Drain();
  REQUIRE(effects.actions.size() == 3);
  const auto sent = [&](size_t i) { return &std::get<action::Send>(effects.actions[i]); };
  CHECK(&*sent(0)->body == &*sent(2)->body);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(std::get<LeaseWait>(std::move(sent(i)->body).Take()).retry_ms == 7);
  }
}

TEST_CASE("a decision is logged at once, and the last ones are kept") {
  Outbox out(0);
  for (int i = 0; i < 60; ++i) out.Decide({event::kServersAdded, "line " + std::to_string(i)}, i);
  CHECK(NoticesIn(out.Drain()).size() == 60);
  REQUIRE(out.journal().decisions().size() == Journal::kKept);
  CHECK(out.journal().decisions().front().event.text == "line 10");
  CHECK(out.journal().decisions().back().at_ms == 59);
}

TEST_CASE("a decision that repeats the last one is said once") {
  Outbox out(0);
  for (int i = 0; i < 3; ++i) out.DecideOnce({event::kSlotsRest, "slots rest"}, i);
  out.Decide({event::kServersAdded, "a server joins"}, 3);
  out.DecideOnce({event::kSlotsRest, "slots rest"}, 4);
  CHECK(NoticesIn(out.Drain()).size() == 3);
}

TEST_CASE("a departure says who is gone, and why") {
  Outbox out(0);
  Member member;
  member.incarnation = {7};
  member.role = Role::kServer;
  member.name = "server-7";
  member.seated = true;
  for (int i = 0; i < 60; ++i) out.Depart(member, i % 2 == 0, "left", i);
  REQUIRE(out.journal().departures().size() == Journal::kKept);
  const Departure& last = out.journal().departures().back();
  CHECK(last.incarnation == Incarnation{7});
  CHECK(last.role == Role::kServer);
  CHECK(last.name == "server-7");
  CHECK(last.at_ms == 59);
  CHECK_FALSE(last.lost);
  CHECK(last.why == "left");
  const SchedulerEffects effects = out.Drain();
  CHECK(NoticesIn(effects).empty());
  CHECK(All<action::CountLostServer>(effects).size() == 30);
  member.seated = false;  // a standby, which no batch waits for
  out.Depart(member, true, "is silent", 60);
  CHECK(out.Drain().empty());
  member.role = Role::kWorker;
  out.Depart(member, true, "is silent", 60);
  CHECK(out.Drain().empty());
}

}  // namespace
}  // namespace dslide::outbox_test
