// What the scheduler does with audits: who is put out, what is taken back, what is shown.
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
  CHECK(run.status().audits.done == 1);
  CHECK(run.status().audits.skipped == 0);
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
  const AuditTotals audits = run.status().audits;
  CHECK(audits.done == 1);
  CHECK(audits.liars == 1);
  CHECK(audits.taken_back == 1);
  CHECK(run.status().recoveries == 1);
  CHECK(run.status().batches == 0);
  CHECK(run.core().roster().Find({11}) == nullptr);
  CHECK(run.core().roster().Count(Role::kWorker) == 2);
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
  for (uint32_t recoveries = 1; recoveries <= 2; ++recoveries) {
    run.Wait(12000);
    CHECK(run.status().recoveries == recoveries);
    CHECK(run.status().audits.skipped == recoveries);
    REQUIRE(run.Lease(11));
    Finish(&run, 11, 0);
    CHECK(run.status().batches == 1);
  }
  run.Wait(30000);
  CHECK(run.status().recoveries == 2);
  CHECK(run.status().batches == 1);
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
