// Workers are held before the plan changes, so that no batch begins anew with it.
#include "scheduler/base/events.h"
#include "tests/scheduler/support/moving_cluster.h"

namespace dslide::pause_test {
namespace {

constexpr int64_t kTickMs = 100;

void CheckNeverPaused(FakeCluster* run, uint64_t worker) {
  for (const Body& body : run->received["peer-" + std::to_string(worker)]) {
    if (const auto* orders = std::get_if<HeartbeatReply>(&body)) CHECK(orders->pause_ms == 0);
  }
}

// Two servers and two workers, 11 and 12, whose batches take 800 ms.
struct Pausing : FakeCluster {
  Pausing() : FakeCluster(MoveConfig()) {
    servers.slot_work.assign(16, 10);
    longest_batch_us = 800'000;
    Start(2);
    CHECK(Work(11));
    Wait(20'000);  // what servers can do is measured
    in_flight[11] = in_flight[12] = 3;
    Wait(1000);
  }
  void TickFor(int64_t ms) {
    for (const int64_t end = now + ms; now < end;) {
      now += kTickMs;
      for (const auto& [worker, batches] : in_flight) {
        Heartbeat busy;
        busy.batches_in_flight = batches;
        if (batches > 0 && alive.contains(worker)) Send(worker, busy);
      }
      Tick();
    }
  }
  void Idle(uint64_t worker) {
    in_flight[worker] = 0;
    Send(worker, Heartbeat{});
  }
  // What the worker was told last; 0 once a plan came.
  uint32_t PauseOf(uint64_t worker) {
    uint32_t pause_ms = 0;
    for (const Body& body : received["peer-" + std::to_string(worker)]) {
      if (const auto* orders = std::get_if<HeartbeatReply>(&body)) pause_ms = orders->pause_ms;
      if (std::holds_alternative<Plan>(body)) pause_ms = 0;
    }
    return pause_ms;
  }
  // A server joins, for whose sake the plan is to change.
  void Newcomer() {
    Join(3, Role::kServer);
    for (int i = 0; i < 20 && PauseOf(11) == 0; ++i) TickFor(kTickMs);
  }
};

TEST_CASE_FIXTURE(Pausing,
                  "pause: the plan changes when all workers have ended what was in flight") {
  Newcomer();
  CHECK(PauseOf(11) == 2 * 800 + 1000);  // time for the plan to come included
  CHECK(PauseOf(12) == 2 * 800 + 1000);
  Idle(11);
  TickFor(300);
  CHECK(core().plan_version() == 1);
  CHECK(PauseOf(11) > 1000);  // what its heartbeat is answered with
  Idle(12);
  TickFor(kTickMs);
  CHECK(core().plan_version() == 2);
  CHECK(HasSeat(core().plan(), 3));
  CHECK(PauseOf(11) == 0);  // the plan came
  Send(11, Heartbeat{});
  CHECK(PauseOf(11) == 0);
}

TEST_CASE_FIXTURE(Pausing, "pause: not for longer than twice what a batch takes") {
  Newcomer();
  TickFor(1500);
  CHECK(core().plan_version() == 1);
  TickFor(300);
  CHECK(core().plan_version() == 2);
}

TEST_CASE_FIXTURE(Pausing, "pause: nobody waits for a worker that is silent, or has left") {
  SUBCASE("silent") {
    Silence(12);
    Wait(4000);
    REQUIRE(core().roster().Count(Role::kWorker) == 2);  // not given up yet
    Newcomer();
  }
  SUBCASE("left") {
    Newcomer();
    Send(12, Leave{});
  }
  Idle(11);
  TickFor(kTickMs);
  CHECK(core().plan_version() == 2);
}

TEST_CASE_FIXTURE(Pausing, "pause: it ends when the plan is not to change, after all") {
  Newcomer();
  REQUIRE(PauseOf(11) > 0);
  Send(3, Leave{});
  TickFor(2 * kTickMs);
  CHECK(PauseOf(11) == 0);
  CHECK(PauseOf(12) == 0);
  CHECK(core().plan_version() == 1);
}

TEST_CASE_FIXTURE(Pausing, "pause: a checkpoint that is due waits for the plan") {
  Newcomer();
  Send(11, CheckpointNow{});
  TickFor(300);
  CHECK(manifests.empty());
  CHECK(PauseOf(11) > 0);
  Idle(11);
  Idle(12);
  TickFor(3 * kTickMs);
  CHECK(core().plan_version() == 2);
  CHECK(manifests.size() == 1);
}

TEST_CASE("pause: leases do not expire meanwhile") {
  Config config = MoveConfig();
  config.cluster.drain_s = 400;
  FakeCluster run(config);
  run.longest_batch_us = 40'000'000;
  run.Start(2);
  CHECK(run.Work(11));
  REQUIRE(run.Lease(12));
  run.in_flight[11] = run.in_flight[12] = 3;
  run.Wait(1000);
  run.Join(3, Role::kServer);
  run.Wait(70'000);
  CHECK(run.core().plan_version() == 1);
  CHECK_FALSE(run.Noticed(event::kLeasesExpired));
}

TEST_CASE(
    "pause: not in synchronous training, where nothing is in flight when the plan may change") {
  FakeCluster run(StepMoveConfig());
  run.longest_batch_us = 800'000;
  run.Start(2);
  CHECK(run.Work(11));
  run.Wait(2000);
  run.Join(3, Role::kServer);
  for (int i = 0; i < 10; ++i) {
    CHECK(run.Work(11));
    run.Wait(1000);
  }
  CHECK(run.core().plan_version() > 1);
  CheckNeverPaused(&run, 11);
}

TEST_CASE("pause: before any batch was done the plan changes at once") {
  FakeCluster run(MoveConfig());
  run.Start();
  run.Wait(3000);
  run.Join(3, Role::kServer);
  run.Wait(2000);
  CHECK(run.core().plan_version() == 2);
  CheckNeverPaused(&run, 11);
}

TEST_CASE_FIXTURE(Pausing,
                  "pause: how long is not up to one worker that is slower than the others") {
  Heartbeat slow;
  slow.batches_in_flight = 1;
  slow.longest_batch_us = 30'000'000;
  Send(12, slow);
  alive.erase(12);  // says nothing else for now
  Newcomer();
  CHECK(PauseOf(12) == 2 * 800 + 1000);
}

}  // namespace
}  // namespace dslide::pause_test
