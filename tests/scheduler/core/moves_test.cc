// Slots that move while training goes on: to servers that join, for balance.
#include "scheduler/balance/model_size.h"
#include "scheduler/base/events.h"
#include "scheduler/status/prometheus_text.h"
#include "tests/scheduler/support/moving_cluster.h"
#include "tests/scheduler/support/step_cluster.h"

namespace dslide::moves_test {
namespace {

using Phase = SchedulerCore::Phase;

TEST_CASE("moves: a server that joins gets slots, in waves, and training goes on") {
  FakeCluster run(MoveConfig());
  run.servers.slot_work.assign(16, 10);
  run.servers.slot_bytes = 2 << 20;  // a wave is of 4 MB at first
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
  CHECK(run.status().recoveries == 0);
  CHECK(GenerationOf(after) == 1);
  CHECK(SlotsIn(after, 3) >= 4);
  CHECK(run.status().imbalance <= 1.15);
  size_t moved = 0, waves = 0;
  const std::vector<Plan> plans = Planned(run);
  REQUIRE(plans.size() >= 3);
  CHECK(SlotsIn(plans[1], 3) == 0);  // it has a seat before it has slots
  for (size_t i = 1; i < plans.size(); ++i) {
    CHECK(plans[i].version == plans[i - 1].version + 1);
    const size_t slots = Changed(plans[i - 1], plans[i]).size();
    CHECK(slots * run.servers.slot_bytes <= (8u << 20));
    moved += slots;
    waves += slots > 0;
  }
  CHECK(waves >= 2);
  CHECK(run.status().moves.slots == moved);
  CHECK(run.status().moves.plans == plans.size() - 1);
  CHECK(run.status().moves.longest_stall_us == 7000);
  CHECK(run.PlanOf(11) == after);  // workers are told, and lost nothing
  FinishRun(&run);
}

TEST_CASE("moves: a few bytes are copied with the plan itself") {
  Config config = MoveConfig();
  config.cluster.move_mbit = 0;
  FakeCluster run(config);
  run.servers.slot_work.assign(16, 10);
  run.Start();
  CHECK(run.Work(11));
  run.Wait(3000);
  run.Join(3, Role::kServer);
  run.Wait(20'000);
  CHECK(SlotsIn(run.core().plan(), 3) >= 4);
  for (const uint64_t server : {1, 2, 3}) CHECK(run.CountTo<MoveSlots>(server) == 0);
  CHECK(run.status().recoveries == 0);
  FinishRun(&run);
}

TEST_CASE("moves: a balanced cluster, and one that is not measured, stay as they are") {
  FakeCluster run(MoveConfig());
  SUBCASE("balanced") { run.servers.slot_work.assign(16, 10); }
  SUBCASE("a little uneven") {
    run.servers.slot_work.assign(16, 10);
    run.servers.slot_work[0] = 15;
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
  run.servers.slot_work.assign(16, 10);
  SUBCASE("slots that cost more") {
    for (size_t slot = 0; slot < 8; ++slot) run.servers.slot_work[slot] = 30;
  }
  SUBCASE("a slow server") { run.servers.capacity[2] = 300; }
  run.Start();
  CHECK(run.Work(11));
  run.Wait(5000);
  CHECK(run.core().plan_version() == 1);  // the first reports do not tell what servers can do
  run.Wait(2000);
  CHECK(run.status().imbalance > 1.15);
  run.Wait(40'000);
  CHECK(run.core().plan_version() > 1);
  CHECK(run.status().imbalance <= 1.15);
  CHECK(run.Noticed(event::kSlotsMove));
  CHECK(run.Noticed(event::kSlotsRest));
  const uint32_t version = run.core().plan_version();
  run.Wait(60'000);
  CHECK(run.core().plan_version() == version);  // and then they rest
  FinishRun(&run);
}

TEST_CASE(
    "moves: what is below the threshold moves slots when it lasts, not when it comes and goes") {
  FakeCluster run(MoveConfig());
  run.servers.slot_work.assign(16, 10);
  run.servers.slot_work[0] = 29;  // 1.11 times the mean
  run.Start();
  CHECK(run.Work(11));
  SUBCASE("lasts") {
    run.Wait(20'000);
    CHECK(run.core().plan_version() == 1);
    CHECK(run.status().imbalance > 1.1);
    run.Wait(40'000);
    CHECK(run.core().plan_version() > 1);
    CHECK(run.status().imbalance <= 1.05);
  }
  SUBCASE("comes and goes") {
    for (int i = 0; i < 8; ++i) {
      run.Wait(15'000);
      run.servers.slot_work[0] = i % 2 == 0 ? 10 : 29;
    }
    CHECK(run.core().plan_version() == 1);
  }
  FinishRun(&run);
}

TEST_CASE("moves: uneven load is borne until it has cost as much as a change of plan") {
  FakeCluster run(MoveConfig());
  run.servers.slot_work.assign(16, 10);
  run.servers.capacity[2] = 700;  // a batch takes it 114 ms; 1.2 times the mean
  run.longest_batch_us = 26'000'000;
  run.Start();
  CHECK(run.Work(11));
  run.Wait(60'000);
  CHECK(run.status().imbalance > 1.15);
  CHECK(run.core().plan_version() == 1);
  run.Wait(60'000);
  CHECK(run.core().plan_version() > 1);
  CHECK(run.status().imbalance < 1.1);
  FinishRun(&run);
}

TEST_CASE("moves: with cluster.balance = off nothing moves, and a spare stays one") {
  Config config = MoveConfig();
  config.cluster.balance = Balance::kOff;
  FakeCluster run(config);
  run.servers.slot_work.assign(16, 10);
  run.servers.capacity[2] = 300;
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

TEST_CASE("moves: before slots are measured a server gets no more than it has memory for") {
  Config config = MoveConfig();
  config.cluster.move_mbit = 0;
  FakeCluster run(config);
  run.Start();
  run.memory_bytes = SlotMemoryBytes(config)[0];
  run.Join(3, Role::kServer);
  run.Wait(5000);
  CHECK(HasSeat(run.core().plan(), 3));
  CHECK(SlotsIn(run.core().plan(), 3) <= 1);
}

TEST_CASE("moves: a wave is not larger than what is copied in good time") {
  Config config = MoveConfig();
  config.cluster.servers = 1;
  config.cluster.move_mbit = 1;
  FakeCluster run(config);
  run.servers.slot_work.assign(16, 10);
  run.servers.slot_bytes = 1 << 20;
  run.Join(1, Role::kServer);
  run.Join(11, Role::kWorker);
  REQUIRE(run.Work(11));
  run.Wait(3000);
  // Short pauses make the waves larger.
  for (const uint64_t next : {2, 3, 4}) {
    run.Join(next, Role::kServer);
    run.Wait(20'000);
    Drain(&run, run.core().roster().Find({next - 1})->name);
    run.Wait(20'000);
    REQUIRE(SlotsIn(run.core().plan(), next) == 16);
  }
  const auto largest_wave = [&](size_t begin) {
    const std::vector<Plan> plans = Planned(run);
    size_t largest = 0;
    for (size_t i = begin + 1; i < plans.size(); ++i) {
      largest = std::max(largest, Changed(plans[i - 1], plans[i]).size());
    }
    return largest;
  };
  CHECK(largest_wave(0) == 8);
  run.servers.slot_bytes = 8 << 20;
  run.Wait(3000);
  const size_t plans = Planned(run).size();
  run.Join(5, Role::kServer);
  run.Wait(20'000);
  REQUIRE(SlotsIn(run.core().plan(), 5) == 8);
  CHECK(largest_wave(plans - 1) == 4);  // 1 Mbit/s carries 37.5 MB in half of the time for a wave
}

TEST_CASE("moves: a slot that takes longer than copies are waited for is waited for longer") {
  Config config = MoveConfig();
  config.cluster.move_mbit = 1;
  FakeCluster run(config);
  run.servers.slot_work.assign(16, 10);
  run.servers.slot_bytes = 100'000'000;  // in 800 s
  run.servers.moves_answered = false;
  run.Start();
  run.Wait(3000);
  run.Join(3, Role::kServer);
  while (run.status().moving_slots == 0) run.Wait(1000);
  run.Wait(1'590'000);
  CHECK(run.status().moving_slots == 1);
  CHECK_FALSE(run.Noticed(event::kCopiesLate));
  run.Wait(15'000);
  CHECK(run.Noticed(event::kCopiesLate, {{"slots", 1}, {"patience_ms", 1'600'000}}));
}

TEST_CASE_FIXTURE(Joined, "moves: the plan does not change while a checkpoint is written") {
  servers.checkpoints_lost = 2;
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
    CHECK(status().moving_slots > 0);  // copies do not disturb it
  }
  servers.checkpoints_lost = 0;
  Wait(20'000);  // it is asked again
  CHECK(manifests.size() == 1);
  CHECK(core().plan_version() > 1);
  CHECK(status().recoveries == 0);
}

TEST_CASE_FIXTURE(Joined, "moves: a checkpoint that failed may still be written by others") {
  servers.checkpoints_lost = 1;
  servers.checkpoint_error = "disk full";
  AskForCheckpoint(this);
  REQUIRE(CountTo<CheckpointRequest>(1) == 1);
  CHECK(std::holds_alternative<ErrorReply>(LastTo(21)));
  Join(3, Role::kServer);
  Wait(5000);
  CHECK(core().plan_version() == 1);
  SUBCASE("until it has answered") {
    CheckpointDone done;
    done.name = LastOf<CheckpointRequest>(this, 1).name;
    done.shard = "shard-1-0";
    done.files = {{"CURRENT", 16, 7}};
    done.bytes = 16;
    Send(1, done);
    Wait(2000);
    CHECK(core().plan_version() > 1);
  }
  SUBCASE("another one is refused as long as that is so") {
    CheckpointDone done;
    done.name = "step-000000000009";
    done.error = "step-000000000001 is still being written";
    done.retry = true;
    Send(1, done);
    Wait(2000);
    CHECK(core().plan_version() == 1);
  }
  CHECK(status().recoveries == 0);
}

TEST_CASE("moves: a checkpoint begins when the plan has been taken up") {
  FakeCluster run(MoveConfig());
  StopInPlanSwitch(&run);
  AskForCheckpoint(&run);
  CHECK(run.CountTo<CheckpointRequest>(1) == 0);
  run.servers_answer = true;
  run.Wait(2000);
  CHECK(run.manifests.size() == 1);
  CHECK(run.CountTo<CheckpointDone>(21) == 1);
}

TEST_CASE_FIXTURE(Joined,
                  "moves: executors are not balanced either while a checkpoint is written") {
  servers.slot_work.assign(16, 10);
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
  servers.slot_work.clear();
  servers.checkpoints_lost = 2;
  AskForCheckpoint(this);
  for (int i = 0; i < 5; ++i) {
    for (const uint64_t server : {1, 2}) lopsided(server);
    Wait(1000);
  }
  CHECK(core().plan_version() == 1);
  servers.checkpoints_lost = 0;
  Wait(12'000);
  REQUIRE(manifests.size() == 1);
  CHECK(core().plan_version() == 3);  // each server is tried once
  CHECK(Noticed(event::kSlotsShared));
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
    const uint64_t before = run.status().batches;
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

TEST_CASE("moves: metrics tell each server's part") {
  FakeCluster run(MoveConfig());
  run.servers.slot_bytes = 1 << 20;
  run.memory_bytes = 1 << 30;
  run.Start();
  run.servers.slot_work.assign(run.core().plan().slot_owner.size(), 1);
  run.Join(3, Role::kServer, "spare");
  run.Wait(1000);
  const std::string text = PrometheusText(run.status(), {}, {}, {{"slots.move.done", 2}});
  CHECK(text.find("dslide_events_total{code=\"slots.move.done\"} 2") != std::string::npos);
  const auto has = [&](const std::string& line) {
    CHECK_MESSAGE(text.find("\n" + line + "\n") != std::string::npos, text);
  };
  has("dslide_recoveries_total 0");
  has("dslide_plan_version " + std::to_string(run.core().plan_version()));
  for (const Member* server : run.core().roster().Of(Role::kServer)) {
    const std::string label = "{server=\"" + server->name + "\"} ";
    const size_t slots = run.servers.at(server->incarnation.value).slots.size();
    has("dslide_server_slots" + label + std::to_string(slots));
    has("dslide_server_memory_bytes" + label + std::to_string(slots << 20));
    has("dslide_server_memory_limit_bytes" + label + "1073741824");
    CHECK(text.find("dslide_server_load_ratio" + label) != std::string::npos);
  }
  CHECK(text.find("server=\"spare\"") != std::string::npos);
}

TEST_CASE("moves: reports under an earlier plan of the generation count, of another one do not") {
  FakeCluster run(MoveConfig());
  run.Start();
  run.Join(3, Role::kServer);
  run.Wait(1000);
  CHECK(run.Lease(11));
  const auto [grant, batch] = run.work(11).front();
  run.work(11).pop_front();
  const uint32_t before = run.core().plan_version();
  run.Wait(20'000);
  REQUIRE(run.core().plan_version() > before);
  REQUIRE(GenerationOf(run.core().plan()) <= before);
  run.Say({{77}, {11}, 900, 0, before}, FakeCluster::Report(grant, batch));
  CHECK(run.status().batches == 1);
  run.Say({{77}, {11}, 901, 0, before}, FakeCluster::Report(grant, batch));
  CHECK(run.status().batches == 1);
  // A lease may be asked for by the earlier plan as well.
  run.work(11).clear();
  run.Say({{77}, {11}, 902, 0, before}, LeaseRequest{});
  REQUIRE_FALSE(run.work(11).empty());
  const auto [late, late_batch] = run.work(11).front();
  run.Silence(3);
  run.Wait(kDeadMs + 6000);
  REQUIRE(GenerationOf(run.core().plan()) > before);
  CHECK(run.status().batches == 0);
  run.Say({{77}, {11}, 903, 0, before}, FakeCluster::Report(late, late_batch));
  CHECK(std::holds_alternative<Ack>(run.LastTo(11)));
  CHECK(run.status().batches == 0);
}

TEST_CASE("moves: a replacement gets the lost server's slots and no others, else all share them") {
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
  CHECK(run.status().recoveries == 1);
  FinishRun(&run);
}

}  // namespace
}  // namespace dslide::moves_test
