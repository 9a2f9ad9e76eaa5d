// Servers that join and cannot do their part: nobody reaches them, or they are never ready.
#include "scheduler/base/events.h"
#include "tests/scheduler/support/moving_cluster.h"
#include "tests/scheduler/support/step_cluster.h"

namespace dslide::newcomers_test {
namespace {

using Phase = SchedulerCore::Phase;

constexpr int64_t kSilentMs = 20000;  // twice cluster.request_timeout_ms

// Servers 1 and 2, worker 11 with batches in flight. Server 3 has joined the plan, without slots.
struct Newcomer : FakeCluster {
  Newcomer() : FakeCluster(MoveConfig()) {
    Start();
    for (int i = 0; i < 3; ++i) REQUIRE(Work(11));
    in_flight[11] = 2;
    address = "tcp://far:1";
    dslide::FakeCluster::Join(3, Role::kServer);
    while (core().plan().servers.size() == 2) Wait(1000);
  }
};

TEST_CASE("newcomers: a server is no member before the scheduler has reached it") {
  FakeCluster run;
  run.address = "tcp://nowhere:1";
  run.answers_at["tcp://nowhere:1"] = {};
  run.Join(1, Role::kServer);
  CHECK(run.core().roster().Count(Role::kServer) == 0);
  CHECK(run.received["peer-1"].empty());
  SUBCASE("it answers later") {
    run.answers_at.clear();
    run.Wait(1000);
    CHECK(run.CountTo<JoinReply>(1) == 1);
    CHECK(run.core().roster().Count(Role::kServer) == 1);
  }
  SUBCASE("nobody answers, and it is told why") {
    for (int second = 0; second < 10; ++second) {
      run.now += 1000;
      run.Tick();
    }
    const auto& refusal = std::get<ErrorReply>(run.LastTo(1));
    CHECK(refusal.code == ErrorCode::kRefused);
    CHECK(refusal.text.find("tcp://nowhere:1") != std::string::npos);
    CHECK(run.Noticed(event::kServerRefused, {{"why", refusal.text}}));
    CHECK(run.core().roster().Count(Role::kServer) == 0);
    CHECK_FALSE(run.core().AwaitsProbe({1}));
  }
}

TEST_CASE("newcomers: another server that answers at the address does not help") {
  FakeCluster run(MoveConfig());
  run.Start();
  run.address = "tcp://one:1";
  run.answers_at["tcp://one:1"] = {1};
  run.Join(3, Role::kServer);
  run.Wait(15000);
  CHECK(run.core().plan().servers.size() == 2);
  CHECK(run.Noticed(event::kServerRefused));
}

TEST_CASE("newcomers: a server of the plan joins a new life of the scheduler without a probe") {
  FakeCluster run;
  run.address = "tcp://one:1";
  run.Start();
  run.answers_at["tcp://one:1"] = {};
  run.Restart();
  CHECK(run.core().roster().Count(Role::kServer) == 2);
}

TEST_CASE_FIXTURE(Newcomer,
                  "newcomers: slots come once workers have done a batch with the server") {
  Wait(10000);
  CHECK(SlotsIn(core().plan(), 3) == 0);
  CHECK(status().moving_slots == 0);
  REQUIRE(Work(11));
  while (SlotsIn(core().plan(), 3) == 0) Wait(1000);
}

TEST_CASE_FIXTURE(Newcomer, "newcomers: with slots, and no batch done since, it is left out") {
  REQUIRE(Work(11));
  while (SlotsIn(core().plan(), 3) == 0) Wait(1000);
  REQUIRE(Lease(11));
  CHECK(SlotsIn(core().plan(), 3) <= core().plan().slot_owner.size() / 3 + 1);
  Wait(kSilentMs - 3000);
  CHECK(core().roster().Find({3}) != nullptr);
  Wait(4000);
  CHECK(core().roster().Find({3}) == nullptr);
  CHECK(Noticed(event::kServerGone,
                {{"server", "server-3"}, {"why", "has slots, and no batch is done since"}}));
  Wait(kSilentMs);  // the others share its slots, and are no newcomers
  CHECK(core().roster().Count(Role::kServer) == 2);
  CHECK(status().recoveries == 1);
}

TEST_CASE_FIXTURE(Newcomer,
                  "newcomers: after one has failed the next ones wait, whoever they are") {
  REQUIRE(Work(11));
  const auto fail = [&](uint64_t server) {
    while (SlotsIn(core().plan(), server) == 0) Wait(1000);
    REQUIRE(Lease(11));
    while (core().roster().Find({server}) != nullptr) Wait(1000);
    while (core().phase() != Phase::kTraining) Wait(1000);
    in_flight[11] = 0;
  };
  const auto joins_plan_after_ms = [&](uint64_t server) {
    address = "tcp://far:" + std::to_string(server);
    dslide::FakeCluster::Join(server, Role::kServer);
    const int64_t begun = now;
    while (core().plan().servers.size() == 2) {
      if ((now - begun) % 60'000 == 0) (void)Work(11);  // the run must not end meanwhile
      Wait(1000);
      REQUIRE(now - begun < 2 * NewcomerRest::kMostMs);
    }
    return now - begun;
  };
  fail(3);
  CHECK(joins_plan_after_ms(4) >= NewcomerRest::kFirstMs - 1000);
  CHECK(Noticed(event::kServersRest));
}

TEST_CASE("newcomers: each failure makes the rest longer, and a long time without one ends that") {
  NewcomerRest rest;
  CHECK(rest.LeftMs(0) == 0);
  int64_t now = 1000;
  for (int64_t ms = NewcomerRest::kFirstMs; ms < 4 * NewcomerRest::kMostMs; ms *= 2) {
    rest.OnFailure(now);
    CHECK(rest.LeftMs(now) == std::min(ms, NewcomerRest::kMostMs));
    now += rest.LeftMs(now);
    CHECK(rest.LeftMs(now) == 0);
  }
  now += 3 * NewcomerRest::kMostMs + 1;
  rest.OnFailure(now);
  CHECK(rest.LeftMs(now) == NewcomerRest::kFirstMs);
}

TEST_CASE_FIXTURE(Newcomer, "newcomers: with slots, it gains no time by joining again and again") {
  REQUIRE(Work(11));
  while (SlotsIn(core().plan(), 3) == 0) Wait(1000);
  REQUIRE(Lease(11));
  for (int64_t waited = 0; waited <= kSilentMs; waited += 1000) {
    dslide::FakeCluster::Join(3, Role::kServer, "", core().plan_version());
    Wait(1000);
  }
  CHECK(core().roster().Find({3}) == nullptr);
}

TEST_CASE_FIXTURE(Newcomer, "newcomers: with slots, and named by a worker, it is left out sooner") {
  REQUIRE(Work(11));
  while (SlotsIn(core().plan(), 3) == 0) Wait(1000);
  REQUIRE(Lease(11));
  CHECK(core().roster().Find({3}) != nullptr);
  silent_servers[11] = {3};
  Wait(4000);
  CHECK(core().roster().Find({3}) == nullptr);
}

TEST_CASE_FIXTURE(Newcomer, "newcomers: a worker that names one while batches are done lies") {
  REQUIRE(Work(11));
  while (SlotsIn(core().plan(), 3) == 0) Wait(1000);
  silent_servers[11] = {3};
  longest_batch_us = 1'000'000;
  for (int second = 0; second < 10 && Work(11); ++second) Wait(1000);
  CHECK(core().roster().Find({3}) != nullptr);
}

TEST_CASE_FIXTURE(Newcomer, "newcomers: a checkpoint does not wait for one without slots") {
  AskForCheckpoint(this);
  CHECK(CountTo<CheckpointRequest>(3) == 0);
  REQUIRE(manifests.size() == 1);
  CHECK(manifests[0].shards.size() == 2);
  CHECK(manifests[0].slot_shard == core().plan().slot_owner);
}

TEST_CASE("newcomers: the steps of synchronous training do not wait for one without slots") {
  FakeCluster run(StepMoveConfig());
  run.Start();
  run.servers.commits_lost_to = 3;
  run.Join(3, Role::kServer);
  while (run.core().plan().servers.size() == 2) {
    (void)run.Work(11);
    run.Wait(1000);
  }
  REQUIRE(SlotsIn(run.core().plan(), 3) == 0);
  run.WorkAll(11);
  CHECK(std::ranges::count(run.epochs_done, 1) == 1);
}

// The receipts of a server that answers with garbage are in no report.
TEST_CASE(
    "newcomers: with slots, and no worker believed since, it is left out soon, in steps too") {
  FakeCluster run(StepMoveConfig());
  run.Start(2);
  run.Join(3, Role::kServer);
  while (SlotsIn(run.core().plan(), 3) == 0) {
    (void)run.Work(11);
    run.Wait(1000);
    REQUIRE(run.core().phase() == Phase::kTraining);
  }
  run.in_flight = {{11, 1}, {12, 1}};
  const auto report_without = [&](uint64_t worker) {
    if (run.work(worker).empty()) REQUIRE(run.Lease(worker));
    const auto [grant, batch] = run.work(worker).front();
    run.work(worker).erase(run.work(worker).begin());
    BatchDone done = FakeCluster::Report(grant, batch);
    done.receipts = {1};
    run.Send(worker, done);
  };
  report_without(11);
  SUBCASE("by two workers") {
    CHECK(run.core().roster().Find({3}) != nullptr);
    report_without(12);
    run.Wait(4000);
    CHECK(run.core().roster().Find({3}) == nullptr);
  }
  SUBCASE("by one of two workers: it may lie") {
    report_without(11);
    run.Wait(kSilentMs / 2);
    CHECK(run.core().roster().Find({3}) != nullptr);
  }
}

TEST_CASE("newcomers: slots come after a checkpoint") {
  Config config = MoveConfig();
  config.checkpoint.interval_s = 1000;
  FakeCluster run(config);
  run.Start();
  for (int i = 0; i < 3; ++i) REQUIRE(run.Work(11));
  run.in_flight[11] = 1;
  run.Join(3, Role::kServer);
  while (run.core().plan().servers.size() == 2) run.Wait(1000);
  SUBCASE("that succeeds") {
    REQUIRE(run.Work(11));
    while (SlotsIn(run.core().plan(), 3) == 0) run.Wait(1000);
    CHECK(run.manifests.size() == 1);
  }
  SUBCASE("for which there is no room: they do not wait for ever") {
    (void)run.core().OnRoom(false, {}, "no room", run.now);
    REQUIRE(run.Work(11));
    while (SlotsIn(run.core().plan(), 3) == 0 && run.now < 600'000) run.Wait(1000);
    CHECK(SlotsIn(run.core().plan(), 3) > 0);
  }
  SUBCASE("that fails: they do not wait for ever") {
    run.manifest_status = Failed("the disk is full");
    REQUIRE(run.Work(11));
    while (SlotsIn(run.core().plan(), 3) == 0) run.Wait(1000);
    CHECK(run.Noticed(event::kCheckpointFailed, {{"why", "the disk is full"}}));
  }
}

TEST_CASE("newcomers: a server that has loaded for long gets time for a batch like others") {
  FakeCluster run(MoveConfig());
  run.Start();
  for (int i = 0; i < 3; ++i) REQUIRE(run.Work(11));
  run.in_flight[11] = 2;
  run.servers.ready_lost = 3;
  run.Silence(2);
  run.Join(3, Role::kServer);
  while (!HasSeat(run.core().plan(), 3)) run.Wait(1000);
  run.Wait(7 * kSilentMs);
  REQUIRE(HasSeat(run.core().plan(), 3));
  run.Send(3, Ready{run.core().plan().version, 5, 100, 0, 0});
  const int64_t ready = run.now;
  while (run.core().roster().Find({3}) != nullptr && run.now - ready < 10 * kSilentMs) {
    run.Wait(1000);
  }
  CHECK(run.now - ready >= kSilentMs);
  CHECK(run.core().roster().Find({3}) == nullptr);
  CHECK(run.Noticed(event::kServerGone,
                    {{"server", "server-3"}, {"why", "has slots, and no batch is done since"}}));
}

TEST_CASE_FIXTURE(Newcomer, "newcomers: a server that no worker hears is left out, at no loss") {
  const uint64_t batches = status().batches;
  silent_servers[11] = {3};
  while (HasSeat(core().plan(), 3)) Wait(1000);
  CHECK(now < kSilentMs);
  CHECK(core().phase() == Phase::kTraining);
  CHECK(status().recoveries == 0);
  CHECK(status().batches == batches);
  CHECK(std::get<Shutdown>(LastTo(3)).reason.starts_with(
      "the server at tcp://far:1 does not answer the workers"));
  CHECK(status().journal.departures().back().why.starts_with("does not answer the workers"));

  // Nor may another server join from there at once.
  dslide::FakeCluster::Join(4, Role::kServer);
  CHECK(std::get<ErrorReply>(LastTo(4)).code == ErrorCode::kRefused);
  address = "tcp://near:1";
  dslide::FakeCluster::Join(5, Role::kServer);
  CHECK(CountTo<JoinReply>(5) == 1);
}

TEST_CASE_FIXTURE(Newcomer, "newcomers: a server that some worker hears stays") {
  dslide::FakeCluster::Join(12, Role::kWorker);
  in_flight[12] = 1;
  silent_servers[11] = {3};
  Wait(kSilentMs);
  CHECK(HasSeat(core().plan(), 3));
  in_flight[12] = 0;  // it asks nobody, so it says nothing
  Wait(2000);
  CHECK_FALSE(HasSeat(core().plan(), 3));
}

TEST_CASE("newcomers: a server that takes gradients is slow, not silent") {
  FakeCluster run(MoveConfig());
  run.servers.slot_work.assign(16, 1.0);  // all servers report batches
  run.Start();
  REQUIRE(run.Work(11));
  run.in_flight[11] = 2;
  run.silent_servers[11] = {2};
  run.Wait(2 * kSilentMs);
  CHECK(HasSeat(run.core().plan(), 2));
}

TEST_CASE("newcomers: a silent server with slots is a lost one") {
  FakeCluster run(MoveConfig());
  run.Start();
  for (int i = 0; i < 3; ++i) REQUIRE(run.Work(11));
  run.in_flight[11] = 2;
  run.silent_servers[11] = {2};
  run.Wait(kSilentMs + 8000);  // cluster.takeover_s more
  run.silent_servers.clear();
  REQUIRE(run.core().plan().servers.size() == 1);
  CHECK(run.status().recoveries == 1);
  run.in_flight.clear();
  FinishRun(&run);
}

TEST_CASE("newcomers: a server that does not take the plan up is left out, at no loss") {
  FakeCluster run(MoveConfig());
  run.Start();
  for (int i = 0; i < 3; ++i) REQUIRE(run.Work(11));
  run.servers.ready_lost = 3;
  run.Join(3, Role::kServer);
  while (run.core().plan().servers.size() == 2) run.Wait(1000);
  run.Wait(70000);
  CHECK_FALSE(HasSeat(run.core().plan(), 3));
  CHECK(run.status().recoveries == 0);
  CHECK(run.Noticed(event::kServerGone, {{"why", "has not taken up slot plan 2 within 60 s"}}));
  FinishRun(&run);
}

TEST_CASE("newcomers: a server that never loads its slots is left out") {
  FakeCluster run(MoveConfig());
  run.servers.ready_lost = 2;
  run.Start();
  run.Wait(300'000);
  CHECK(run.core().phase() == Phase::kLoading);
  CHECK(run.status().waiting == "have 2 servers, loading slots: server-2");
  run.Wait(20'000);
  CHECK(run.Noticed(event::kServerGone,
                    {{"why", "has not loaded its slots within 300 s of the others"}}));
  REQUIRE(run.core().plan().servers.size() == 1);
  FinishRun(&run);
}

TEST_CASE("newcomers: a new life of the scheduler leaves out who never loads its slots") {
  FakeCluster run(MoveConfig());
  run.servers.ready_lost = 2;
  run.Start();
  run.servers.at(2).loaded = 0;
  run.Restart();
  run.Wait(20'000);
  CHECK(run.status().waiting == "have 2 servers, loading slots: server-2");
  run.Wait(300'000);
  CHECK(run.Noticed(event::kServerGone,
                    {{"why", "has not loaded its slots within 300 s of the others"}}));
  run.Join(12, Role::kWorker);
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
}

}  // namespace
}  // namespace dslide::newcomers_test
