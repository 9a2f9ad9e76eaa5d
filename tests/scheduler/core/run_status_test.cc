#include "scheduler/core/run_status.h"

#include "tests/scheduler/support/fake_cluster.h"

namespace dslide::run_status_test {
namespace {

TEST_CASE("the status before the first plan says what the run waits for") {
  FakeCluster run;
  const RunStatus status = run.status();
  CHECK(status.phase == RunPhase::kGathering);
  CHECK(status.waiting == "have 0 of 2 servers and 0 workers, waiting for 2 more servers");
  CHECK(status.progress == 0);
  CHECK(status.imbalance == 1);
  CHECK(status.seats.empty());
  CHECK(status.members.empty());
  CHECK(status.last_checkpoint.empty());
}

TEST_CASE("the status has every member, servers first, and the seats of the plan") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  const RunStatus status = run.status();
  CHECK(status.phase == RunPhase::kTraining);
  CHECK(status.batches == 1);
  CHECK(status.progress == doctest::Approx(1.0 / 26));
  REQUIRE(status.members.size() == 3);
  CHECK(status.Count(Role::kServer) == 2);
  CHECK(status.members[1].seat == 1);
  CHECK(status.members[1].figures);
  CHECK_FALSE(status.members[2].seat);
  CHECK_FALSE(status.members[2].figures);
  CHECK(status.Find({11}) == &status.members[2]);
  CHECK(status.Find({99}) == nullptr);
  REQUIRE(status.seats.size() == 2);
  CHECK(status.seats[0].slots == 2);
  CHECK_FALSE(status.seats[0].vacant);
}

TEST_CASE("the status shows a vacant seat, and the end") {
  FakeCluster run;
  run.Start();
  run.Send(2, Leave{});
  CHECK(run.status().seats.at(1).vacant);
  CHECK(run.status().journal.departures().back().name == "server-2");
  run.Stop();
  CHECK(run.status().phase == RunPhase::kFinished);
  CHECK(run.status().outcome == "stopped before training began; nothing was saved");
}

}  // namespace
}  // namespace dslide::run_status_test
