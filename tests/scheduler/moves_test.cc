// Slots that move while training goes on: to servers that join, from those that leave, for balance.
#include "scheduler/status.h"
#include "tests/scheduler/fake_cluster.h"
#include "tests/scheduler/step_cluster.h"

namespace dslide {
namespace {

using Phase = SchedulerCore::Phase;

constexpr int64_t kDeadMs = 8000;  // a silence that no member survives

Config Moving(Config config) {
  config.train.epochs = 4;
  config.cluster.slots = 16;
  config.cluster.balance = Balance::kAuto;
  config.cluster.takeover_s = 5;
  config.cluster.move_mbit = 1000;  // copied in the background before
  ResolveConfig(50, 32, &config);   // no more slots than labels
  return config;
}
Config MoveConfig() { return Moving(RunConfig()); }
Config StepMoveConfig() { return Moving(StepConfig()); }

size_t SlotsIn(const Plan& plan, uint64_t member) {
  size_t slots = 0;
  for (const uint16_t owner : plan.slot_owner) {
    slots += plan.servers[owner].incarnation.value == member;
  }
  return slots;
}

bool HasSeat(const Plan& plan, uint64_t member) {
  return std::any_of(plan.servers.begin(), plan.servers.end(),
                     [&](const PlanServer& s) { return s.incarnation.value == member; });
}

// Slots that have other owners, by incarnation.
std::vector<size_t> Changed(const Plan& before, const Plan& after) {
  std::vector<size_t> changed;
  for (size_t slot = 0; slot < before.slot_owner.size(); ++slot) {
    if (before.servers[before.slot_owner[slot]].incarnation !=
        after.servers[after.slot_owner[slot]].incarnation) {
      changed.push_back(slot);
    }
  }
  return changed;
}

std::vector<Plan> Planned(const FakeCluster& run) {
  std::vector<Plan> plans;
  for (const LedgerEntry& entry : run.entries) {
    if (const auto* planned = std::get_if<LedgerPlanned>(&entry)) plans.push_back(planned->plan);
  }
  return plans;
}

template <typename T>
const T& LastOf(FakeCluster* run, uint64_t member) {
  const T* last = nullptr;
  for (const Body& body : run->received["peer-" + std::to_string(member)]) {
    if (const auto* found = std::get_if<T>(&body)) last = found;
  }
  REQUIRE(last != nullptr);
  return *last;
}

void Drain(FakeCluster* run, const std::string& name) {
  run->Join(21, Role::kObserver);
  run->Send(21, DrainServer{name});
}

// Ends the run: every batch counts once, and all slots have what counts.
void FinishRun(FakeCluster* run, uint64_t worker = 11) {
  run->WorkAll(worker);
  REQUIRE(run->core().phase() == Phase::kFinished);
  CHECK(run->core().outcome().ok());
  run->CheckPromise();
  run->CheckAllCountedOnce(4);
}

// Server 3 has joined; the flip by which it gets its first slots is out, and nobody has taken it
// up.
void StopInFlip(FakeCluster* run) {
  run->Start();
  for (int i = 0; i < 5; ++i) REQUIRE(run->Work(11));
  run->Join(3, Role::kServer);
  while (run->core().plan().servers.size() == 2 || run->core().MovingSlots() == 0) run->Wait(1000);
  run->servers_answer = false;
  while (run->core().MovingSlots() > 0) run->Wait(1000);
  REQUIRE(SlotsIn(run->core().plan(), 3) > 0);
}

struct Joined : FakeCluster {
  Joined() : FakeCluster(MoveConfig()) {
    Start();
    REQUIRE(Work(11));
  }
};

TEST_CASE("moves: a server that joins gets slots, in waves, and training goes on") {
  FakeCluster run(MoveConfig());
  run.slot_work.assign(16, 10);
  run.slot_bytes = 2 << 20;  // a wave is of 4 MB at first
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  run.Wait(3000);
  const Plan before = run.core().plan();
  CHECK(before.version == 1);
  run.Join(3, Role::kServer);
  for (int i = 0; i < 30; ++i) {
    CHECK(run.Work(11));
    run.Wait(1000);
  }
  const Plan after = run.core().plan();
  CHECK(run.core().recoveries() == 0);
  CHECK(GenerationOf(after) == 1);
  CHECK(SlotsIn(after, 3) >= 4);
  CHECK(run.core().Imbalance() <= 1.15);
  size_t moved = 0, waves = 0;
  const std::vector<Plan> plans = Planned(run);
  REQUIRE(plans.size() >= 3);
  CHECK(SlotsIn(plans[1], 3) == 0);  // it has a seat before it has slots
  for (size_t i = 1; i < plans.size(); ++i) {
    CHECK(plans[i].version == plans[i - 1].version + 1);
    const size_t slots = Changed(plans[i - 1], plans[i]).size();
    CHECK(slots * run.slot_bytes <= (8u << 20));
    moved += slots;
    waves += slots > 0;
  }
  CHECK(waves >= 2);
  CHECK(run.core().moves().slots == moved);
  CHECK(run.core().moves().plans == plans.size() - 1);
  CHECK(run.core().moves().longest_stall_us == 7000);
  CHECK(run.PlanOf(11) == after);  // workers are told, and lost nothing
  FinishRun(&run);
}

TEST_CASE("moves: a few bytes are copied with the plan itself") {
  Config config = MoveConfig();
  config.cluster.move_mbit = 0;
  FakeCluster run(config);
  run.slot_work.assign(16, 10);
  run.Start();
  CHECK(run.Work(11));
  run.Wait(3000);
  run.Join(3, Role::kServer);
  run.Wait(20'000);
  CHECK(SlotsIn(run.core().plan(), 3) >= 4);
  for (const uint64_t server : {1, 2, 3}) CHECK(run.CountTo<MoveSlots>(server) == 0);
  CHECK(run.core().recoveries() == 0);
  FinishRun(&run);
}

TEST_CASE("moves: a balanced cluster, and one that is not measured, stay as they are") {
  FakeCluster run(MoveConfig());
  SUBCASE("balanced") { run.slot_work.assign(16, 10); }
  SUBCASE("a little uneven") {
    run.slot_work.assign(16, 10);
    run.slot_work[0] = 15;
  }
  SUBCASE("not measured") {}
  run.Start();
  CHECK(run.Work(11));
  run.Wait(60'000);
  CHECK(run.core().plan_version() == 1);
  CHECK(run.CountTo<MoveSlots>(1) + run.CountTo<MoveSlots>(2) == 0);
}

TEST_CASE("moves: uneven load, or servers of other speeds, move slots until the goal is reached") {
  FakeCluster run(MoveConfig());
  run.slot_work.assign(16, 10);
  SUBCASE("slots that cost more") {
    for (size_t slot = 0; slot < 8; ++slot) run.slot_work[slot] = 30;
  }
  SUBCASE("a slow server") { run.capacity[2] = 300; }
  run.Start();
  CHECK(run.Work(11));
  run.Wait(2000);
  CHECK(run.core().Imbalance() > 1.15);
  run.Wait(40'000);
  CHECK(run.core().plan_version() > 1);
  CHECK(run.core().Imbalance() <= 1.15);
  CHECK(run.Noticed("slots move: the busiest server"));
  CHECK(run.Noticed("slots rest"));
  const uint32_t version = run.core().plan_version();
  run.Wait(60'000);
  CHECK(run.core().plan_version() == version);  // and then they rest
  FinishRun(&run);
}

TEST_CASE("moves: with cluster.balance = off nothing moves, and a spare stays one") {
  Config config = MoveConfig();
  config.cluster.balance = Balance::kOff;
  FakeCluster run(config);
  run.slot_work.assign(16, 10);
  run.capacity[2] = 300;
  run.Start();
  CHECK(run.Work(11));
  run.Join(3, Role::kServer);
  run.Wait(30'000);
  CHECK(run.core().plan_version() == 1);
  CHECK(run.core().roster().Spares().size() == 1);
  // But a server that shall leave is emptied.
  Drain(&run, "server-2");
  run.Wait(10'000);
  CHECK(SlotsIn(run.core().plan(), 1) == 16);
  CHECK_FALSE(HasSeat(run.core().plan(), 2));
  FinishRun(&run);
}

TEST_CASE_FIXTURE(Joined, "moves: a drained server is emptied and leaves the plan, others go on") {
  slot_work.assign(16, 10);
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
  CHECK(Noticed("server-2 shall leave"));
  Send(2, Leave{});
  servers.at(2).alive = false;
  CHECK(core().phase() == Phase::kTraining);
  CHECK(core().recoveries() == 0);
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
  const auto refusal = [](FakeCluster* run) {
    const auto& error = std::get<ErrorReply>(run->LastTo(21));
    CHECK(error.code == ErrorCode::kRefused);
    return error.text;
  };
  SUBCASE("no such server") {
    FakeCluster run(config);
    run.Start();
    Drain(&run, "sever-2");
    CHECK(refusal(&run) == "there is no server sever-2; there are server, server-2");
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
    run.slot_work.assign(16, 10);
    run.slot_bytes = 100 << 20;
    run.memory_bytes = 1000 << 20;  // for 10 of 16 slots
    run.Start();
    run.Wait(3000);
    Drain(&run, "server-2");
    CHECK(refusal(&run).starts_with("server-2 cannot leave: no server has memory for "));
    CHECK(refusal(&run).find(" MB are lacking") != std::string::npos);
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
    CHECK(refusal(&run).starts_with("slots cannot move now: the run is waiting for server-2"));
  }
}

TEST_CASE_FIXTURE(Joined, "moves: the plan does not change while a checkpoint is written") {
  checkpoints_lost = 2;
  AskForCheckpoint(this);
  Join(3, Role::kServer);
  SUBCASE("a server that joins") {
    Wait(5000);
    CHECK(core().plan_version() == 1);
  }
  SUBCASE("a server that shall leave") {
    Send(3, Leave{});
    Drain(this, "server");
    Wait(5000);
    CHECK(core().plan_version() == 1);
    CHECK(core().MovingSlots() > 0);  // copies do not disturb it
  }
  checkpoints_lost = 0;
  Wait(20'000);  // it is asked again
  CHECK(manifests.size() == 1);
  CHECK(core().plan_version() > 1);
  CHECK(core().recoveries() == 0);
}

TEST_CASE_FIXTURE(Joined,
                  "moves: executors are not balanced either while a checkpoint is written") {
  slot_work.assign(16, 10);
  const auto lopsided = [&](uint64_t server) {
    Heartbeat beat;
    LoadReport load;
    load.interval_ms = 1000;
    load.batches = 10;
    for (const auto& [slot, taken] : servers.at(server).slots) {
      load.slots.push_back(static_cast<uint32_t>(slot));
    }
    const size_t slots = load.slots.size();
    load.executor.resize(slots);
    load.work.assign(slots, 100.0f);
    load.service_us.resize(slots);
    load.bytes.resize(slots);
    load.busy = {0.8f, 0.0f};  // all slots are with the first executor
    beat.load = load;
    Send(server, beat);
  };
  slot_work.clear();
  checkpoints_lost = 2;
  AskForCheckpoint(this);
  for (int i = 0; i < 5; ++i) {
    for (const uint64_t server : {1, 2}) lopsided(server);
    Wait(1000);
  }
  CHECK(core().plan_version() == 1);
  checkpoints_lost = 0;
  Wait(12'000);
  REQUIRE(manifests.size() == 1);
  CHECK(core().plan_version() == 3);  // each server is tried once
  CHECK(Noticed("slots change executors"));
  CHECK(Changed(Planned(*this)[0], core().plan()).empty());
  for (int i = 0; i < 5; ++i) {
    for (const uint64_t server : {1, 2}) lopsided(server);
    Wait(1000);
  }
  CHECK(core().plan_version() == 3);
}

TEST_CASE("moves: synchronous training changes the plan between two steps, and goes on") {
  FakeCluster run(StepMoveConfig());
  run.Start();
  LeaseAll(&run, 11);  // the open step and the one behind it
  const std::vector<uint32_t> leased = Leased(&run, 11);
  REQUIRE(leased.size() == 8);
  Finish(&run, 11, 0);
  run.Join(3, Role::kServer);
  run.Wait(3000);
  CHECK(run.core().plan_version() == 1);
  for (uint32_t n = 1; n < 8; ++n) {
    CHECK(run.core().plan_version() == 1);
    Finish(&run, 11, n);
    run.Wait(1000);
  }
  CHECK(run.core().plan_version() == 2);  // no step is half done, and none is leased
  CHECK(HasSeat(run.core().plan(), 3));
  for (int i = 0; i < 40 && SlotsIn(run.core().plan(), 3) == 0; ++i) {
    const uint32_t version = run.core().plan_version();
    const uint64_t before = run.core().counted_batches();
    run.Wait(1000);
    if (run.core().plan_version() != version) CHECK(before % 13 % 4 * (before % 13 != 0) == 0);
    while (Leased(&run, 11).empty() && run.Lease(11)) {
    }
    if (!Leased(&run, 11).empty()) CHECK(run.Work(11));
  }
  CHECK(SlotsIn(run.core().plan(), 3) > 0);
  for (int i = 0; i < 60 && run.core().phase() != Phase::kFinished; ++i) {
    run.WorkAll(11);
    run.Wait(2000);
  }
  CHECK(run.core().phase() == Phase::kFinished);
  run.CheckPromise();
  run.CheckAllCountedOnce(4);
}

TEST_CASE("moves: synchronous training does not wait for a server that joined and has left again") {
  FakeCluster run(StepMoveConfig());
  run.Start();
  LeaseAll(&run, 11);
  run.Join(3, Role::kServer);
  run.Wait(3000);  // the plan shall change behind the steps that are leased
  run.Send(3, Leave{});
  run.Wait(3000);
  for (int i = 0; i < 20 && run.core().phase() != Phase::kFinished; ++i) {
    run.WorkAll(11);
    run.Wait(2000);
  }
  CHECK(run.core().phase() == Phase::kFinished);
}

TEST_CASE("moves: deaths before the plan changes leave the owners as they are") {
  FakeCluster run(MoveConfig());
  run.moves_answered = false;
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  Drain(&run, "server-2");
  run.Wait(3000);
  REQUIRE(run.core().MovingSlots() == 8);
  const MoveSlots order = LastOf<MoveSlots>(&run, 1);
  CHECK(order.slots.size() == 8);
  CHECK(order.from == std::vector<uint16_t>(8, 1));
  SUBCASE("a server that comes back as it was") {
    const uint64_t lost = 1;
    run.Silence(lost);
    run.Wait(kDeadMs);
    CHECK(run.core().phase() == Phase::kGathering);
    CHECK(run.core().MovingSlots() == 0);
    run.Return(lost);
    CHECK(run.core().phase() == Phase::kTraining);
    CHECK(run.core().plan_version() == 1);
  }
  SUBCASE("the target is lost for good: the one that shall leave takes its slots over") {
    run.Silence(1);
    run.Wait(kDeadMs + 6000);
    CHECK(run.core().recoveries() == 1);
    CHECK(SlotsIn(run.core().plan(), 2) == 16);
  }
  SUBCASE("the source is lost for good") {
    run.Silence(2);
    run.Wait(kDeadMs + 6000);
    CHECK(run.core().recoveries() == 1);
    CHECK(SlotsIn(run.core().plan(), 1) == 16);
  }
  SUBCASE("copies that nobody finishes are given up") {
    run.Wait(2500);
    CHECK(LastOf<MoveSlots>(&run, 1) == order);  // asked for again
    CHECK(run.CountTo<MoveSlots>(1) > 1);
    run.Wait(600'000);
    CHECK(run.CountTo<MoveSlots>(1) > 200);
    CHECK(LastOf<MoveSlots>(&run, 1).move > order.move);
  }
  run.moves_answered = true;
  run.Wait(30'000);
  FinishRun(&run);
}

TEST_CASE("moves: a server without slots is lost, and the others go on") {
  Config config = MoveConfig();
  config.cluster.takeover_s = 0;  // and nobody waits for it
  FakeCluster run(config);
  run.moves_answered = false;
  run.fenced_return = true;
  run.Start();
  for (int i = 0; i < 5; ++i) REQUIRE(run.Work(11));
  bool had_a_plan = false;
  SUBCASE("it has joined, and its first slots are being copied") {
    run.Join(3, Role::kServer);
    while (run.core().MovingSlots() == 0) run.Wait(1000);
    run.Silence(3);
    had_a_plan = true;
  }
  SUBCASE("it was lost before it had the plan that it joined with") {
    run.Join(3, Role::kServer);
    run.Silence(3);
    while (run.core().plan().servers.size() == 2) run.Wait(1000);
    CHECK_FALSE(run.core().roster().Find({3})->ready);
  }
  SUBCASE("the others take that plan up late") {
    run.Join(3, Role::kServer);
    run.Silence(3);
    run.servers_answer = false;
    while (run.core().plan().servers.size() == 2) run.Wait(1000);
    run.Wait(kDeadMs + 3000);
    CHECK(run.core().phase() == Phase::kGathering);
    run.servers_answer = true;
  }
  run.Wait(kDeadMs);
  CHECK(run.Noticed("server-3 is lost; it had no slots"));
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK_FALSE(HasSeat(run.core().plan(), 3));
  CHECK(run.PlanOf(11) == run.core().plan());
  run.moves_answered = true;
  run.Return(3);  // it was only silent: it joins again, and begins anew for that
  CHECK(run.servers.at(3).fenced == had_a_plan);
  run.Wait(30'000);
  CHECK(HasSeat(run.core().plan(), had_a_plan ? 1001 : 3));
  CHECK(run.core().recoveries() == 0);
  FinishRun(&run);
}

TEST_CASE("moves: deaths while the plan changes") {
  FakeCluster run(MoveConfig());
  StopInFlip(&run);
  const Plan flip = run.core().plan();
  CHECK(GenerationOf(flip) == 1);
  CHECK_FALSE(run.core().roster().Find({3})->ready);
  SUBCASE("all take it up late") {
    run.Wait(5000);
    run.servers_answer = true;
    run.Wait(12'000);
    CHECK(GenerationOf(run.core().plan()) == 1);
    CHECK(run.core().recoveries() == 0);
  }
  SUBCASE("a source dies: its slots are lost, and all goes back to the last checkpoint") {
    run.Silence(1);
    run.servers_answer = true;
    run.Wait(kDeadMs + 6000);
    CHECK(run.core().recoveries() == 1);
    CHECK(GenerationOf(run.core().plan()) > 1);
    CHECK(run.core().counted_batches() == 0);
    CHECK_FALSE(HasSeat(run.core().plan(), 1));
  }
  SUBCASE("the target dies") {
    run.Silence(3);
    run.servers_answer = true;
    run.Wait(kDeadMs + 6000);
    CHECK(run.core().recoveries() == 1);
    CHECK(run.core().counted_batches() == 0);
    CHECK_FALSE(HasSeat(run.core().plan(), 3));
  }
  SUBCASE("nobody dies, but the plan is never taken up") {
    run.Wait(62'000);
    CHECK(run.core().recoveries() >= 1);
    CHECK(GenerationOf(run.core().plan()) == run.core().plan_version());
    CHECK(run.Noticed("cannot be taken up: not all servers have their slots"));
    run.servers_answer = true;
    run.Wait(1000);
  }
  run.Wait(30'000);
  CHECK(run.core().phase() == Phase::kTraining);
  FinishRun(&run);
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
  CHECK(run.core().recoveries() == 1);
  CHECK(run.Noticed("a server was lost that others copied from"));
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
  CHECK(run.core().recoveries() == 1);
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
  CHECK(run.core().recoveries() == 1);
  run.Say({{77}, {2}, 900, 0, 1}, Heartbeat{});
  CHECK(run.CountTo<Shutdown>(2) > 0);
  CHECK(run.CountTo<Shutdown>(3) == 0);
}

TEST_CASE("moves: the scheduler dies between its ledger and what it sends") {
  FakeCluster run(MoveConfig());
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  run.Join(3, Role::kServer);
  while (SlotsIn(run.core().plan(), 3) == 0 && run.core().MovingSlots() == 0) run.Wait(1000);
  uint64_t told = 0;  // of the plan's recipients
  SUBCASE("nobody was told") {}
  SUBCASE("one server has taken it up") { told = 1; }
  SUBCASE("two servers have") { told = 2; }
  SUBCASE("all have, no worker knows") { told = 3; }
  run.dies_after = 1 + told;
  const size_t plans = Planned(run).size();
  while (!run.died) {
    run.now += 1000;
    run.Tick();
  }
  REQUIRE(Planned(run).size() == plans + 1);
  const Plan flip = Planned(run).back();
  CHECK(GenerationOf(flip) == 1);
  // Its status is asked for before anybody has come back.
  run.servers_answer = false;
  run.Restart();
  CHECK_FALSE(StatusJson(run.core(), {}, run.evaluations, "", run.now).empty());
  CHECK(run.core().Imbalance() >= 1);
  run.servers_answer = true;
  run.Join(12, Role::kWorker);
  run.Wait(3000);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.core().recoveries() == 0);
  CHECK(GenerationOf(run.core().plan()) == 1);
  CHECK(run.core().plan_version() >= flip.version);
  CHECK(run.core().counted_batches() == 5);
  FinishRun(&run, 12);
}

TEST_CASE("moves: metrics tell each server's part") {
  FakeCluster run(MoveConfig());
  run.slot_bytes = 1 << 20;
  run.memory_bytes = 1 << 30;
  run.Start();
  run.slot_work.assign(run.core().plan().slot_owner.size(), 1);
  run.Join(3, Role::kServer, "spare");
  run.Wait(1000);
  const std::string text = PrometheusText(run.core(), {});
  const auto has = [&](const std::string& line) {
    CHECK_MESSAGE(text.find("\n" + line + "\n") != std::string::npos, text);
  };
  has("dslide_recoveries 0");
  has("dslide_plan_version " + std::to_string(run.core().plan_version()));
  for (const Member* server : run.core().roster().Of(Role::kServer)) {
    const std::string label = "{server=\"" + server->name + "\"} ";
    const size_t slots = run.servers.at(server->incarnation.value).slots.size();
    has("dslide_server_slots" + label + std::to_string(slots));
    has("dslide_server_memory_bytes" + label + std::to_string(slots << 20));
    has("dslide_server_memory_limit_bytes" + label + "1073741824");
    CHECK(text.find("dslide_server_load" + label) != std::string::npos);
  }
  CHECK(text.find("server=\"spare\"") != std::string::npos);
}

TEST_CASE("moves: reports under an earlier plan of the generation count, of another one do not") {
  FakeCluster run(MoveConfig());
  run.Start();
  run.Join(3, Role::kServer);
  run.Wait(1000);
  CHECK(run.Lease(11));
  const auto [grant, batch] = run.work[11].front();
  run.work[11].pop_front();
  const uint32_t before = run.core().plan_version();
  run.Wait(20'000);
  REQUIRE(run.core().plan_version() > before);
  REQUIRE(GenerationOf(run.core().plan()) <= before);
  run.Say({{77}, {11}, 900, 0, before}, FakeCluster::Report(grant, batch));
  CHECK(run.core().counted_batches() == 1);
  run.Say({{77}, {11}, 901, 0, before}, FakeCluster::Report(grant, batch));
  CHECK(run.core().counted_batches() == 1);
  // A lease may be asked for by the earlier plan as well.
  run.work[11].clear();
  run.Say({{77}, {11}, 902, 0, before}, LeaseRequest{});
  REQUIRE_FALSE(run.work[11].empty());
  const auto [late, late_batch] = run.work[11].front();
  run.Silence(3);
  run.Wait(kDeadMs + 6000);
  REQUIRE(GenerationOf(run.core().plan()) > before);
  CHECK(run.core().counted_batches() == 0);
  run.Say({{77}, {11}, 903, 0, before}, FakeCluster::Report(late, late_batch));
  CHECK(std::holds_alternative<Ack>(run.LastTo(11)));
  CHECK(run.core().counted_batches() == 0);
}

TEST_CASE("moves: a replacement gets the lost server's slots and no others; else all share them") {
  Config config = MoveConfig();
  config.cluster.servers = 3;
  config.cluster.balance = Balance::kOff;
  FakeCluster run(config);
  for (const uint64_t server : {1, 2, 3}) run.Join(server, Role::kServer);
  run.Join(11, Role::kWorker);
  const Plan before = run.core().plan();
  REQUIRE(before.servers.size() == 3);
  SUBCASE("a replacement") {
    run.Join(4, Role::kServer);
    run.Silence(2);
    run.Wait(kDeadMs);
    const Plan after = run.core().plan();
    CHECK(after.slot_owner == before.slot_owner);
    CHECK(after.servers[1].incarnation == Incarnation{4});
    CHECK(GenerationOf(after) == after.version);
  }
  SUBCASE("nobody comes") {
    run.Silence(2);
    run.Wait(kDeadMs + 6000);
    const Plan after = run.core().plan();
    REQUIRE(after.servers.size() == 2);
    for (const size_t slot : Changed(before, after)) {
      CHECK(before.servers[before.slot_owner[slot]].incarnation == Incarnation{2});
    }
    CHECK(SlotsIn(after, 1) == 8);
    CHECK(SlotsIn(after, 3) == 8);
  }
  CHECK(run.core().recoveries() == 1);
  FinishRun(&run);
}

}  // namespace
}  // namespace dslide
