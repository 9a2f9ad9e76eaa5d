// Servers that shall leave: their slots go to the others first.
#include "scheduler/balance/model_size.h"
#include "scheduler/base/events.h"
#include "tests/scheduler/support/moving_cluster.h"

namespace dslide::drains_test {
namespace {

using Phase = SchedulerCore::Phase;

TEST_CASE_FIXTURE(Joined, "moves: a drained server is emptied and leaves the plan, others go on") {
  servers.slot_work.assign(16, 10);
  Wait(3000);
  Drain(this, "server-2");
  CHECK(std::holds_alternative<Ack>(LastTo(21)));
  CHECK(core().roster().Find({2})->draining);
  Drain(this, "server-2");  // again: it is under way
  CHECK(std::holds_alternative<Ack>(LastTo(21)));
  Wait(20'000);
  const Plan& plan = core().plan();
  CHECK(GenerationOf(plan) == 1);
  REQUIRE(plan.servers.size() == 1);
  CHECK(SlotsIn(plan, 1) == 16);
  CHECK(PlanOf(2) == plan);  // it is told that it is out of it
  CHECK(core().roster().Spares().empty());
  CHECK(Noticed(event::kServerLeaves, {{"server", "server-2"}}));
  Send(2, Leave{});
  servers.at(2).alive = false;
  CHECK(core().phase() == Phase::kTraining);
  CHECK(status().recoveries == 0);
  FinishRun(this);
}

TEST_CASE("moves: a drain of a spare ends it at once") {
  Config config = MoveConfig();
  config.cluster.balance = Balance::kOff;
  FakeCluster run(config);
  run.Start();
  run.Join(3, Role::kServer, "extra");
  Drain(&run, "extra");
  CHECK(std::holds_alternative<Ack>(run.LastTo(21)));
  CHECK(std::holds_alternative<Shutdown>(run.LastTo(3)));
  CHECK(run.core().roster().Spares().empty());
}

TEST_CASE("moves: drains that cannot be are refused, and say why") {
  Config config = MoveConfig();
  const auto refusal = [](FakeCluster* run, ErrorCode code = ErrorCode::kRefused) {
    const auto& error = std::get<ErrorReply>(run->LastTo(21));
    CHECK(error.code == code);
    return error.text;
  };
  SUBCASE("no such server") {
    FakeCluster run(config);
    run.Start();
    Drain(&run, "sever-2");
    CHECK(refusal(&run) == "there is no server sever-2; the servers are: server, server-2");
  }
  SUBCASE("the last one") {
    config.cluster.servers = 1;
    FakeCluster run(config);
    run.Join(1, Role::kServer);
    run.Join(11, Role::kWorker);
    Drain(&run, "server");
    CHECK(refusal(&run) == "server is the last server");
    CHECK_FALSE(run.core().roster().Find({1})->draining);
  }
  SUBCASE("the last one that stays") {
    FakeCluster run(config);
    run.Start();
    Drain(&run, "server-2");
    Drain(&run, "server");
    CHECK(refusal(&run) == "server is the last server");
  }
  SUBCASE("nobody has the memory") {
    FakeCluster run(config);
    run.servers.slot_work.assign(16, 10);
    run.servers.slot_bytes = 100 << 20;
    run.memory_bytes = 1000 << 20;  // for 10 of 16 slots
    run.Start();
    run.Wait(3000);
    Drain(&run, "server-2");
    CHECK(refusal(&run).starts_with("server-2 cannot leave: no server has memory for "));
    CHECK(refusal(&run).find(" MB more") != std::string::npos);
    CHECK_FALSE(run.core().roster().Find({2})->draining);
    run.Wait(10'000);
    CHECK(run.core().plan_version() == 1);
  }
  SUBCASE("not in training") {
    FakeCluster run(config);
    run.Start();
    run.Silence(2);
    run.Wait(kDeadMs);
    Drain(&run, "server");
    const std::string why = refusal(&run, ErrorCode::kStalePlan);  // it may be asked for again
    CHECK(why.starts_with("slots cannot move now: waiting for server-2"));
  }
  SUBCASE("the run stops") {
    FakeCluster run(config);
    run.Start();
    REQUIRE(run.Work(11));
    run.servers.checkpoints_lost = 2;
    run.Stop();
    Drain(&run, "server");
    CHECK(refusal(&run) == "slots cannot move now: the run is about to stop");
  }
}

// Server 2 has been drained; the plan without it is out, and nobody has taken it up.
void StopInDeparture(FakeCluster* run) {
  run->Start();
  for (int i = 0; i < 5; ++i) REQUIRE(run->Work(11));
  Drain(run, "server-2");
  run->Wait(1000);
  run->servers_answer = false;
  run->Wait(1000);
  REQUIRE_FALSE(HasSeat(run->core().plan(), 2));
}

TEST_CASE("moves: a server that leaves dies before others have its slots") {
  FakeCluster run(MoveConfig());
  StopInDeparture(&run);
  SUBCASE("and the scheduler lives") {}
  SUBCASE("while a checkpoint before the end is wanted") { run.Stop(); }
  run.Silence(2);
  run.servers_answer = true;
  run.Wait(kDeadMs + 6000);
  CHECK(run.status().recoveries == 1);
  CHECK(run.Noticed(event::kSlotMapFailed, {{"source_lost", true}}));
  CHECK(SlotsIn(run.core().plan(), 1) == 16);
  run.Wait(10'000);
  CHECK((run.core().phase() == Phase::kTraining || run.core().phase() == Phase::kFinished));
}

TEST_CASE("moves: a server that leaves and the scheduler die together") {
  FakeCluster run(MoveConfig());
  StopInDeparture(&run);
  run.Silence(2);
  run.servers_answer = true;
  run.Restart();
  run.Join(12, Role::kWorker);
  run.Wait(120'000);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(GenerationOf(run.core().plan()) > 1);
  FinishRun(&run, 12);
}

TEST_CASE("moves: a target is lost and comes back, but what it copied from has died meanwhile") {
  FakeCluster run(MoveConfig());
  StopInDeparture(&run);
  run.Silence(1);
  run.Wait(kDeadMs);
  run.Silence(2);
  run.Wait(1000);
  run.servers_answer = true;
  run.Return(1);
  run.Wait(120'000);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.status().recoveries == 1);
  FinishRun(&run);
}

TEST_CASE("moves: a server that left the plan and missed that is told again") {
  FakeCluster run(MoveConfig());
  StopInDeparture(&run);
  const size_t plans = run.CountTo<Plan>(2);
  run.Say({{77}, {2}, 900, 0, 1}, Heartbeat{});
  CHECK(run.CountTo<Plan>(2) == plans + 1);
  CHECK(run.PlanOf(2) == run.core().plan());
  run.Say({{77}, {2}, 901, 0, run.core().plan_version()}, Heartbeat{});
  CHECK(run.CountTo<Plan>(2) == plans + 1);
}

TEST_CASE("moves: a server that left the plan is not kept for a state that is lost") {
  FakeCluster run(MoveConfig());
  StopInDeparture(&run);
  run.Silence(1);
  run.Join(3, Role::kServer);
  run.servers_answer = true;
  run.Wait(kDeadMs + 6000);
  CHECK(run.status().recoveries == 1);
  run.Say({{77}, {2}, 900, 0, 1}, Heartbeat{});
  CHECK(run.CountTo<Shutdown>(2) > 0);
  CHECK(run.CountTo<Shutdown>(3) == 0);
}

TEST_CASE("moves: a server that asks for itself is meant, whatever it thinks that it is called") {
  FakeCluster run(MoveConfig());
  run.Join(1, Role::kServer, "a");
  run.Join(2, Role::kServer, "a");
  run.Join(11, Role::kWorker);
  REQUIRE(run.core().roster().Find({2})->name == "a-2");
  run.Send(2, DrainServer{"a"});
  CHECK(run.core().roster().Find({2})->draining);
  CHECK_FALSE(run.core().roster().Find({1})->draining);
}

TEST_CASE_FIXTURE(Joined, "moves: a server that shall leave asks again once another one is back") {
  Silence(2);
  Wait(kDeadMs);
  Send(1, DrainServer{"server"});
  CHECK(std::get<ErrorReply>(LastTo(1)).code == ErrorCode::kStalePlan);
  Return(2);
  Send(1, DrainServer{"server"});
  CHECK(std::holds_alternative<Ack>(LastTo(1)));
  Wait(20'000);
  CHECK(SlotsIn(core().plan(), 2) == 16);
  CHECK(status().recoveries == 0);
  FinishRun(this);
}

TEST_CASE("moves: a server that has left the plan and asks once more still serves its slots") {
  FakeCluster run(MoveConfig());
  StopInDeparture(&run);
  run.Say({{77}, {2}, 900, 0, 1}, DrainServer{"server-2"});  // crossed the plan on the way
  CHECK(std::holds_alternative<Ack>(run.LastTo(2)));
  CHECK(run.CountTo<Shutdown>(2) == 0);
  run.servers_answer = true;
  run.Wait(10'000);
  CHECK(run.status().recoveries == 0);
  FinishRun(&run);
}

TEST_CASE("moves: a server may leave though the others will be uneven") {
  Config config = MoveConfig();
  config.cluster.servers = 3;
  FakeCluster run(config);
  run.servers.slot_work.assign(16, 10);
  run.servers.slot_bytes = SlotMemoryBytes(config)[0];
  run.memory_bytes = 6 * run.servers.slot_bytes;  // it has 5 or 6, and half of all would be 8
  run.Join(1, Role::kServer);
  run.memory_bytes = 0;
  run.Join(2, Role::kServer);
  run.Join(3, Role::kServer);
  run.Join(11, Role::kWorker);
  run.Wait(3000);
  Drain(&run, "server-3");
  CHECK(std::holds_alternative<Ack>(run.LastTo(21)));
  run.Wait(30'000);
  CHECK_FALSE(HasSeat(run.core().plan(), 3));
  CHECK(SlotsIn(run.core().plan(), 1) <= 6);
  FinishRun(&run);
}

TEST_CASE("moves: with cluster.balance = off a drain moves the slots that it must, and no others") {
  Config config = MoveConfig();
  config.cluster.servers = 3;
  config.cluster.balance = Balance::kOff;
  FakeCluster run(config);
  run.servers.slot_work.assign(16, 10);
  run.servers.slot_bytes =
      1 << 20;  // four in the first wave, one and room for others in the second
  run.servers.capacity[2] = 300;
  for (const uint64_t server : {1, 2, 3}) run.Join(server, Role::kServer);
  run.Join(11, Role::kWorker);
  REQUIRE(run.Work(11));
  run.Wait(3000);
  const Plan before = run.core().plan();
  Drain(&run, "server-3");
  run.Wait(60'000);
  CHECK_FALSE(HasSeat(run.core().plan(), 3));
  for (const size_t slot : Changed(before, run.core().plan())) {
    CHECK(before.servers[before.slot_owner[slot]].incarnation == Incarnation{3});
  }
  FinishRun(&run);
}

TEST_CASE_FIXTURE(Joined, "moves: what servers could do that left is expected of none that joins") {
  servers.slot_work.assign(16, 10);
  Wait(5000);
  for (const uint64_t quick : {3, 4, 5}) {
    servers.capacity[quick] = 3000;
    Join(quick, Role::kServer);
    Wait(30'000);
    REQUIRE(SlotsIn(core().plan(), quick) > 0);
    Drain(this, core().roster().Find({quick})->name);
    Wait(30'000);
    Send(quick, Leave{});
    Silence(quick);
  }
  Wait(6000);
  Join(6, Role::kServer);
  CHECK(status().Find({6})->figures->capacity == doctest::Approx(1000));
}

}  // namespace
}  // namespace dslide::drains_test
