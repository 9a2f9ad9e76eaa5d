// What the scheduler does with audits: who is put out, what is taken back, what is shown.
#include "scheduler/base/events.h"
#include "tests/scheduler/support/step_cluster.h"

namespace dslide::auditing_test {
namespace {

Config AuditConfig() {
  Config config = StepConfig();
  config.train.audit = 1;
  return config;
}

struct Work {
  uint64_t worker;
  uint64_t digest;
};

// Both servers say what was sent for the first batch; that of the first one counts.
void Report(FakeCluster* run, const std::vector<Work>& all) {
  AuditReport report;
  report.output_counts = report.input_counts = all[0].worker;
  for (const Work& work : all) {
    report.workers.push_back(work.worker);
    report.digests.push_back(work.digest);
    report.input_digests.push_back(work.digest);
  }
  for (const uint64_t server : {1, 2}) run->Send(server, report);
}

// Worker 11 has trained the first batch.
struct Setup {
  FakeCluster run{AuditConfig()};

  explicit Setup(uint64_t workers) {
    run.Start(workers);
    run.Tick();
    REQUIRE(run.Lease(11));
    Finish(&run, 11, 0);
  }
};

TEST_CASE("auditing: a batch that others confirm counts for its step") {
  Setup setup(2);
  FakeCluster& run = setup.run;
  REQUIRE(run.Lease(12));
  CHECK(Leased(&run, 12) == Units{0});
  Report(&run, {{11, 5}, {12, 5}});
  CHECK(run.status().trust.done == 1);
  CHECK(run.status().trust.skipped == 0);
  CHECK(run.status().batches == 1);
  CHECK(run.core().roster().Count(Role::kWorker) == 2);
}

TEST_CASE("auditing: a liar is put out, and what counts goes back if it is a lie") {
  Setup setup(3);
  FakeCluster& run = setup.run;
  REQUIRE(run.Lease(12));
  Report(&run, {{11, 6}, {12, 5}});
  REQUIRE(run.Lease(13));
  CHECK(Leased(&run, 13) == Units{0});
  Report(&run, {{11, 6}, {12, 5}, {13, 5}});
  const TrustTotals audits = run.status().trust;
  CHECK(audits.done == 1);
  CHECK(audits.liars.size() == 1);
  CHECK(audits.taken_back == 1);
  CHECK(run.status().recoveries == 0);
  CHECK(run.core().plan().version == 2);
  CHECK(GenerationOf(run.core().plan()) == 1);
  CHECK(run.status().batches == 0);
  CHECK(run.core().roster().Find({11}) == nullptr);
  CHECK(run.core().roster().Count(Role::kWorker) == 2);
}

TEST_CASE("auditing: only the step in progress is taken back, and all of it is trained again") {
  FakeCluster run(AuditConfig());
  run.Start(1);  // nobody else: no audits
  for (int n = 0; n < 4; ++n) CHECK(run.Work(11));
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  run.Join(12, Role::kWorker);
  run.Join(13, Role::kWorker);
  run.Tick();
  REQUIRE(run.Lease(11));
  REQUIRE(run.Lease(11));
  CHECK(Leased(&run, 11) == Units{4, 5});
  Finish(&run, 11, 4);
  CHECK(run.status().batches == 5);
  REQUIRE(run.Lease(12));
  CHECK(Leased(&run, 12) == Units{4});
  AuditReport lie{{0, 4, 0}, {11, 12}, {5, 6}, {5, 6}, 11, 11};
  for (const uint64_t server : {1, 2}) run.Send(server, lie);
  REQUIRE(run.Lease(13));
  lie = {{0, 4, 0}, {11, 12, 13}, {5, 6, 6}, {5, 6, 6}, 11, 11};
  const LeasedBatches trained_before = run.work(13);
  for (const uint64_t server : {1, 2}) run.Send(server, lie);
  CHECK(run.core().roster().Find({11}) == nullptr);
  CHECK(run.status().batches == 4);
  CHECK(run.status().samples == 16);
  CHECK(run.ledger.batches == 4);
  CHECK(run.Noticed(event::kRolledBack, {{"batches", 1}}));
  // What was trained before does not count: servers have dropped it.
  REQUIRE(trained_before.size() == 1);
  run.Say({{77}, {13}, 1000000, 0, 1},
          FakeCluster::Report(trained_before[0].first, trained_before[0].second));
  CHECK(run.status().batches == 4);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  // One worker alone finishes the run.
  run.Send(12, Leave{});
  run.Wait(2000);
  run.WorkAll(13);
  CHECK(run.core().outcome().ok());
  CHECK(run.core().phase() == RunPhase::kFinished);
  run.CheckPromise();
}

TEST_CASE("auditing: without keys a liar does not come back by its name") {
  Setup setup(3);
  FakeCluster& run = setup.run;
  const std::string name = run.core().roster().Find({11})->name;
  REQUIRE(run.Lease(12));
  REQUIRE_FALSE(name.empty());
  Report(&run, {{11, 6}, {12, 5}});
  REQUIRE(run.Lease(13));
  Report(&run, {{11, 6}, {12, 5}, {13, 5}});
  run.Join(21, Role::kWorker, name);
  CHECK(run.core().roster().Find({21}) == nullptr);
  REQUIRE(std::holds_alternative<ErrorReply>(run.LastTo(21)));
  CHECK(std::get<ErrorReply>(run.LastTo(21)).code == ErrorCode::kIncompatible);
  run.Join(22, Role::kWorker, "another");
  CHECK(run.core().roster().Find({22}) != nullptr);
}

TEST_CASE("auditing: a worker that is waited for in vain twice is not waited for any more") {
  Setup setup(2);
  FakeCluster& run = setup.run;
  for (uint64_t times = 1; times <= 2; ++times) {
    run.Wait(12000);
    CHECK(run.status().trust.taken_back == times);
    CHECK(run.status().trust.skipped == times);
    REQUIRE(run.Lease(11));
    Finish(&run, 11, 0);
    CHECK(run.status().batches == 1);
  }
  run.Wait(30000);
  CHECK(run.status().trust.taken_back == 2);
  CHECK(run.status().batches == 1);
}

TEST_CASE("auditing: who has just joined is asked, without waiting for a tick") {
  FakeCluster run(AuditConfig());
  run.Start(1);
  run.Tick();
  REQUIRE(run.Lease(11));
  Finish(&run, 11, 0);  // there is nobody else to ask
  run.Join(12, Role::kWorker);
  run.Send(12, Heartbeat{});
  REQUIRE(run.Lease(11));
  Finish(&run, 11, 1);
  REQUIRE(run.Lease(12));
  CHECK(Leased(&run, 12) == Units{1});
}

TEST_CASE("auditing: an audit that nobody's report ends is over by the next look at all") {
  Setup setup(2);
  FakeCluster& run = setup.run;
  REQUIRE(run.Lease(12));
  run.Tick();
  run.Send(12, Leave{});
  run.Tick();
  CHECK(run.status().trust.skipped == 0);
  run.now += 100;
  run.Tick();
  CHECK(run.status().trust.skipped == 1);
  CHECK(run.status().trust.taken_back == 0);
}

TEST_CASE("auditing: when the worker that was asked leaves, the next one is asked") {
  Setup setup(3);
  FakeCluster& run = setup.run;
  REQUIRE(run.Lease(12));
  CHECK(Leased(&run, 12) == Units{0});
  run.Send(12, Leave{});
  REQUIRE(run.Lease(13));
  CHECK(Leased(&run, 13) == Units{0});
}

}  // namespace
}  // namespace dslide::auditing_test
