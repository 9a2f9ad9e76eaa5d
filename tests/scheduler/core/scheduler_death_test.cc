// The scheduler dies, and a new life of it goes on from the ledger while servers stay.
#include <set>

#include "scheduler/base/events.h"
#include "tests/scheduler/support/step_cluster.h"

namespace dslide::scheduler_death_test {
namespace {

using Phase = SchedulerCore::Phase;

TEST_CASE("death of the scheduler: the servers stay, and nothing is lost") {
  FakeCluster run;
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  run.Restart();
  CHECK(run.core().phase() == Phase::kTraining);  // the servers have joined again
  CHECK(run.core().plan_version() == 1);
  CHECK(run.status().batches == 5);
  CHECK(run.status().samples == 20);
  CHECK(run.Noticed(event::kRunContinued, {{"epoch", 1}, {"batches", 5}}));
  CHECK(run.servers.at(2).name == "server-2");
  CHECK(run.CountTo<Plan>(2) == 1);  // it has its slots
  run.Join(12, Role::kWorker);
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  CHECK(run.status().work.batches == 21);
  run.CheckPromise();
  run.CheckAllCountedOnce();
  CHECK(run.entries.size() == run.ledger.entries);
}

TEST_CASE("death of the scheduler: it waits for its seats, and replaces who died as well") {
  FakeCluster run;
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  for (int i = 0; i < 2; ++i) CHECK(run.Work(11));
  run.Silence(2);
  run.Restart();
  CHECK(run.core().phase() == Phase::kGathering);
  CHECK(run.status().batches == 7);
  SUBCASE("it comes back") {
    run.Wait(5000);
    CHECK(run.status().waiting.find("waiting for server-2 or a replacement") == 0);
    run.Return(2);
    CHECK(run.core().plan_version() == 1);
    CHECK(run.status().batches == 7);
  }
  SUBCASE("a spare with another name comes: it waits as long as for any silent server") {
    run.Join(3, Role::kServer, "spare");
    run.Wait(7000);
    CHECK(run.core().plan_version() == 1);
    run.Wait(1000);
    CHECK(run.core().plan_version() == 2);
    CHECK(run.status().batches == 5);
  }
  SUBCASE("one with its name comes: it waits until there is suspicion") {
    run.Join(3, Role::kServer, "server-2");
    run.Wait(2000);
    CHECK(run.core().plan_version() == 1);
    run.Wait(1000);
    CHECK(run.core().plan_version() == 2);
    CHECK(run.status().batches == 5);
  }
  SUBCASE("nobody comes: the other takes over") {
    run.Wait(31000);
    CHECK(run.core().plan_version() == 2);
    CHECK(run.PlanOf(1).servers.size() == 1);
  }
  run.Join(12, Role::kWorker);
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  run.CheckPromise();
  run.CheckAllCountedOnce();
}

TEST_CASE("death of the scheduler: a worker of the old life is a stranger") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  const auto [grant, batch] = run.work(11).front();
  run.Restart();
  run.Send(11, FakeCluster::Report(grant, batch));
  CHECK(std::get<ErrorReply>(run.LastTo(11)).code == ErrorCode::kWrongRun);
  CHECK(run.status().batches == 1);
}

TEST_CASE("death of the scheduler: a run that was stopped begins a new plan from the checkpoint") {
  FakeCluster run;
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  run.Stop();
  REQUIRE(run.core().phase() == Phase::kFinished);
  for (const uint64_t server : {1, 2}) run.Silence(server);
  run.Restart();
  CHECK(run.core().phase() == Phase::kGathering);
  run.Join(3, Role::kServer);
  run.Join(4, Role::kServer);
  CHECK(run.core().plan_version() == 2);
  CHECK(run.PlanOf(3).restore == "/checkpoints/step-000000000005");
  // Who slept through the stop begins anew.
  run.Return(1);
  CHECK(run.servers.at(1).fenced);
  run.Join(12, Role::kWorker);
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  run.CheckPromise();
  run.CheckAllCountedOnce();
}

TEST_CASE("death of the scheduler: without its checkpoints a run does not begin again by itself") {
  FakeCluster run;
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  REQUIRE(run.ledger.last_checkpoint == "step-000000000005");
  run.manifests.clear();
  SUBCASE("the servers are there: it goes on, and writes another") {
    run.Restart();
    run.Join(12, Role::kWorker);
    run.WorkAll(12);
    CHECK(run.core().outcome().ok());
    CHECK(run.manifests.size() == 1);
    run.CheckAllCountedOnce();
  }
  SUBCASE("a server is gone: it stops, with the reason") {
    run.Silence(2);
    run.Restart();
    run.Join(3, Role::kServer, "server-2");
    run.Wait(3000);
    REQUIRE(run.core().phase() == Phase::kFinished);
    REQUIRE_FALSE(run.core().outcome().ok());
    CHECK(run.core().outcome().error().kind == ErrorKind::kBadInput);
    CHECK(run.core().outcome().error().message ==
          "step-000000000005 is gone from /checkpoints, and so is every other checkpoint of this "
          "run; put one back, or begin again in another --run-dir");
  }
}

TEST_CASE("death of the scheduler: a new life with another configuration goes back") {
  FakeCluster run;
  run.Start();
  for (int i = 0; i < 5; ++i) CHECK(run.Work(11));
  run.ledger.run.config = FormatConfig(Config{});
  run.Restart();
  CHECK(run.core().phase() == Phase::kGathering);
  for (const uint64_t server : {1, 2}) CHECK(run.servers.at(server).fenced);
  run.Join(3, Role::kServer);
  run.Join(4, Role::kServer);
  CHECK(run.core().plan_version() == 2);
  CHECK(run.status().batches == 0);
}

// A small run with everything in it: checkpoints, an evaluation, a server that is replaced, one
// that leaves. Each step is a function of where the run stands, so that it can go on after a death
// anywhere.
class Story {
 public:
  explicit Story(Config config) : run(std::move(config)) {
    run.fenced_return = true;
    for (const uint64_t server : {1, 2}) run.Join(server, Role::kServer);
    run.Join(worker_, Role::kWorker);
  }

  bool finished() {
    return !run.died && run.core().phase() == Phase::kFinished && run.ledger.finished;
  }

  // One step. Returns after it, or with run.died set in the middle of it.
  void Step() {
    steps_++;
    if (steps_ % 5 == 0) {
      run.Join(21, Role::kObserver);
      run.Send(21, CheckpointNow{});
    }
    if (steps_ == 12) Replace(2, 3);
    if (steps_ == 22) Replace(3, 4);
    if (run.died) return;
    if (!run.Work(worker_)) run.Wait(1000);
  }

  // Goes on after a death.
  void Revive() {
    run.Restart();
    run.Join(++worker_, Role::kWorker);
  }

  FakeCluster run;

 private:
  void Replace(uint64_t lost, uint64_t by) {
    run.Silence(lost);
    run.Join(by, Role::kServer);
    run.Wait(8000);
  }

  uint64_t worker_ = 11;
  int steps_ = 0;
};

// Runs the story with deaths: the first after `first` things (entries, messages, manifests), and
// others each `every` things later. Returns how many things there were, at most.
void RunWithDeaths(const Config& config, uint64_t first, uint64_t every, bool* reached) {
  CAPTURE(first);
  CAPTURE(every);
  Story story(config);
  FakeCluster& run = story.run;
  run.dies_after = first;
  int deaths = 0;
  for (int turn = 0; turn < 2000 && !story.finished(); ++turn) {
    story.Step();
    if (!run.died) continue;
    story.Revive();
    if (every > 0 && ++deaths < 20) run.dies_after = every;
    *reached = true;
  }
  REQUIRE(story.finished());
  run.CheckPromise();
  run.CheckAllCountedOnce();
  // What a recount of the ledger finds.
  LedgerState recount;
  for (const LedgerEntry& entry : run.entries) recount.Apply(entry);
  REQUIRE(recount.finished);
  REQUIRE(recount.batches == 2 * FakeCluster::kBatches);
  REQUIRE(recount.samples == 2 * FakeCluster::kSamples);
  REQUIRE(recount.epoch == 2);
}

TEST_CASE("death of the scheduler: between any two effects, every batch counts exactly once") {
  for (const Config& config : {RunConfig(), StepConfig(1)}) {
    uint64_t deaths = 0;
    for (uint64_t first = 0;; ++first) {
      bool reached = false;
      RunWithDeaths(config, first, 0, &reached);
      if (!reached) break;
      deaths++;
    }
    CHECK(deaths > 150);
  }
}

TEST_CASE("death of the scheduler: many deaths in one run") {
  for (const Config& config : {RunConfig(), StepConfig(0)}) {
    for (uint64_t first = 0; first < 60; first += 7) {
      for (const uint64_t every : {9, 17, 31}) {
        bool reached = false;
        RunWithDeaths(config, first, every, &reached);
        CHECK(reached);
      }
    }
  }
}

}  // namespace
}  // namespace dslide::scheduler_death_test
