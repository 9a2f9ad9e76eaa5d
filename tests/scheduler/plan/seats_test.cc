#include "scheduler/plan/seats.h"
#include "tests/scheduler/support/actions.h"

#include <doctest/doctest.h>

namespace dslide::seats_test {
namespace {

constexpr int64_t kHeartbeatMs = 1000;

Member& AddServer(Roster* roster, uint64_t server, const std::string& name = "") {
  Join join;
  join.role = Role::kServer;
  join.name = name;
  return roster->Add(join, {server}, "p" + std::to_string(server), 0);
}

// A generation of three servers, of which the last has no slots.
struct Setup {
  Setup() : seats(LedgerState(), false, 0) {
    for (const uint64_t server : {1, 2, 3}) AddServer(&roster, server);
    seats.BeginGeneration(ChooseFirstServers(roster, 3), {0, 0, 1, 1}, "", &roster, 100);
  }
  void Lose(uint64_t server, bool left = false, int64_t now_ms = 1000) {
    seats.Lose({server}, left, now_ms);
    roster.Remove({server});
  }

  Roster roster{kHeartbeatMs};
  Outbox out{0};
  Seats seats;
};

TEST_CASE("there are no seats before the first plan") {
  LedgerState ledger;
  ledger.plan.version = 7;
  Seats seats(ledger, false, 0);
  CHECK_FALSE(seats.live());
  CHECK(seats.plan().version == 7);
  Roster roster(kHeartbeatMs);
  AddServer(&roster, 1);
  CHECK(seats.Vacant(roster).empty());
  seats.BeginGeneration(ChooseFirstServers(roster, 1), {0}, "", &roster, 0);
  CHECK(seats.plan().version == 8);
  CHECK(seats.live());
  CHECK(seats.recoveries() == 0);
  CHECK(roster.Find({1})->seated);
  seats.CheckInvariants(roster, 1);
}

TEST_CASE("a new life waits for the servers of the ledger's plan") {
  LedgerState ledger;
  ledger.plan.version = 7;
  ledger.plan.servers = {{"s", "", {1}}};
  ledger.plan.slot_owner = {0};
  Seats seats(ledger, true, 500);
  Roster roster(kHeartbeatMs);
  CHECK(seats.Has({1}));
  CHECK(seats.Vacant(roster) == std::vector<size_t>{0});
  CHECK(seats.changed_ms() == 500);
  // It may come back as it was, until it would count as dead.
  CHECK_FALSE(seats.LossOf({0}, roster, kHeartbeatMs, 2000).all_gone);
  CHECK(seats.LossOf({0}, roster, kHeartbeatMs, 20'000).all_gone);
  // A replacement that waits may have the seat sooner.
  AddServer(&roster, 5, "s");
  CHECK(seats.LossOf({0}, roster, kHeartbeatMs, 4000).all_gone);
}

TEST_CASE("a lost server leaves a vacant seat") {
  Setup run;
  run.Lose(2, true, 900);
  CHECK(run.seats.Vacant(run.roster) == std::vector<size_t>{1});
  const Seats::Loss loss = run.seats.LossOf({1}, run.roster, kHeartbeatMs, 1000);
  CHECK(loss.all_gone);
  CHECK(loss.one_left);
  CHECK(loss.last_loss_ms == 900);
  CHECK(run.seats.HaveSlots({1}));
  CHECK_FALSE(run.seats.HaveSlots({2}));
  run.seats.CheckInvariants(run.roster, 4);
}

TEST_CASE("the next plan of a generation is recorded, and sent to all") {
  Setup run;
  Plan next = run.seats.plan();
  next.slot_owner = {0, 1, 1, 1};
  const uint32_t before = run.seats.plan().version;
  run.seats.SwitchTo(WithoutEmpty(next, {false, false, true}), &run.roster, 200, &run.out);
  CHECK(run.seats.plan().version == before + 1);
  CHECK(run.seats.plan().generation == before);
  CHECK(run.seats.plan().servers.size() == 2);
  CHECK(run.seats.Switched());
  CHECK_FALSE(run.roster.Find({3})->seated);
  CHECK_FALSE(run.roster.Find({1})->ready);
  const SchedulerEffects effects = run.out.Drain();
  CHECK(effects.ledger.size() == 1);
  CHECK(MessagesIn(effects).size() == 3);  // the one that goes is told as well
  run.seats.CheckInvariants(run.roster, 4);
}

TEST_CASE("messages of all plans of the generation are current") {
  Setup run;
  const uint32_t first = run.seats.plan().version;
  run.seats.SwitchTo(run.seats.plan(), &run.roster, 200, &run.out);
  Envelope envelope;
  envelope.plan_version = first;
  CHECK(run.seats.IsOfThisGeneration(envelope.plan_version));
  envelope.plan_version = first + 2;
  CHECK_FALSE(run.seats.IsOfThisGeneration(envelope.plan_version));
  run.seats.BeginGeneration(ChooseFirstServers(run.roster, 3), {0, 0, 1, 1}, "", &run.roster, 300);
  envelope.plan_version = first;
  CHECK_FALSE(run.seats.IsOfThisGeneration(envelope.plan_version));
}

TEST_CASE("a server that had a seat in this generation may hold slots, one that was lost may not") {
  Setup run;
  const uint32_t first = run.seats.plan().version;
  CHECK_FALSE(run.seats.HadSeat({3}, first));  // it has one
  run.Lose(3);
  run.seats.SwitchTo(run.seats.GiveUp({2}), &run.roster, 200, &run.out);
  CHECK_FALSE(run.seats.HadSeat({3}, first));  // the others went on without it
  CHECK(run.seats.HadSeat({9}, first));
  CHECK_FALSE(run.seats.HadSeat({9}, first - 1));
  CHECK_FALSE(run.seats.HadSeat({9}, 0));
}

TEST_CASE("newcomers are proven by a batch with them, or if no worker tries for a while") {
  Setup run;
  const auto proven = [&](int64_t now_ms) { return run.seats.NewcomersProven(run.roster, now_ms); };
  run.seats.SwitchTo(run.seats.plan(), &run.roster, 100, &run.out);
  run.seats.OnServersJoined(100);
  CHECK(proven(100));  // there is no worker
  Join join;
  join.role = Role::kWorker;
  Member& worker = run.roster.Add(join, {11}, "w", 0);
  worker.heartbeat.batches_in_flight = 1;
  CHECK_FALSE(proven(9000));
  worker.heartbeat.batches_in_flight = 0;
  CHECK_FALSE(proven(5099));  // it may have paused for the plan
  CHECK(proven(5100));
  worker.heartbeat.batches_in_flight = 1;
  run.seats.OnBatch(0);
  CHECK(proven(100));
}

TEST_CASE("a return to the checkpoint is counted, a first plan is not") {
  Setup run;
  CHECK(run.seats.recoveries() == 0);
  run.seats.BeginGeneration(ChooseFirstServers(run.roster, 3), {0, 0, 1, 1}, "dir", &run.roster, 9);
  CHECK(run.seats.recoveries() == 1);
  CHECK(run.seats.plan().restore == "dir");
  CHECK(run.seats.SetLacking(5));
  CHECK_FALSE(run.seats.SetLacking(5));
}

}  // namespace
}  // namespace dslide::seats_test
