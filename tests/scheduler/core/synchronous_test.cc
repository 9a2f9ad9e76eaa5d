// The scheduler in synchronous training: what it leases, and when steps are committed.
#include "tests/scheduler/support/step_cluster.h"

namespace dslide::synchronous_test {
namespace {

using Phase = SchedulerCore::Phase;

TEST_CASE("synchronous: a step is committed on all servers when it is complete, not before") {
  FakeCluster run(StepConfig());
  run.Start();
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0});  // where the run begins
  for (const uint64_t server : {1, 2}) CHECK(run.CountTo<CommitSteps>(server) == 1);
  for (int n = 0; n < 3; ++n) CHECK(run.Work(11));
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0});
  CHECK(run.Work(11));
  for (const uint64_t server : {1, 2}) CHECK(Commits(&run, server) == std::vector<uint64_t>{0, 1});
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  for (const uint64_t server : {1, 2}) {
    CHECK(Commits(&run, server) == std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  }
  run.CheckAllCountedOnce();
  CHECK(run.CountTo<CommitSteps>(11) == 0);
}

// What a worker has leased but for copies of what others have.
Units Fresh(FakeCluster* run, uint64_t worker) {
  Units units = Leased(run, worker);
  std::erase_if(units, [&](uint32_t unit) {
    return run->promise.again.contains({worker, {0, unit, 0}});
  });
  return units;
}

TEST_CASE("synchronous: of the step behind the open ones a worker gets an equal share") {
  FakeCluster alone(StepConfig());
  alone.Start();
  LeaseAll(&alone, 11);
  CHECK(Leased(&alone, 11) == Units{0, 1, 2, 3, 4, 5, 6, 7});
  FakeCluster two(StepConfig());
  two.Start(2);
  LeaseAll(&two, 11);
  CHECK(Leased(&two, 11) == Units{0, 1, 2, 3, 4, 5});
  LeaseAll(&two, 12);
  CHECK(Fresh(&two, 12) == Units{6, 7});
  // Of five workers each gets a unit, as long as there are some.
  FakeCluster five(StepConfig());
  five.Start(5);
  LeaseAll(&five, 11);
  CHECK(Leased(&five, 11) == Units{0, 1, 2, 3, 4});
  for (const uint32_t worker : {12, 13, 14}) {
    LeaseAll(&five, worker);
    CHECK(Fresh(&five, worker) == Units{worker - 7});
  }
  LeaseAll(&five, 15);
  CHECK(Fresh(&five, 15).empty());
}

TEST_CASE("synchronous: workers that had to wait get units of a step when it opens") {
  FakeCluster run(StepConfig());
  run.Start(3);
  LeaseAll(&run, 11);
  CHECK(Fresh(&run, 11) == Units{0, 1, 2, 3, 4});
  LeaseAll(&run, 12);
  CHECK(Fresh(&run, 12) == Units{5});
  for (uint32_t n = 0; n < 3; ++n) Finish(&run, 11, n);
  CHECK(Fresh(&run, 11) == Units{3, 4});
  Finish(&run, 11, 3);
  // Now units 4 to 7 are open, 8 to 11 the step behind. One each, in the order of asking.
  CHECK(Fresh(&run, 11) == Units{4, 6});
  CHECK(Fresh(&run, 12) == Units{5, 7});
  CHECK(Fresh(&run, 13).empty());  // it did not ask
  LeaseAll(&run, 12);
  CHECK(Fresh(&run, 12) == Units{5, 7, 8});
  LeaseAll(&run, 13);
  CHECK(Fresh(&run, 13) == Units{9});
  LeaseAll(&run, 11);
  CHECK(Fresh(&run, 11) == Units{4, 6, 10});
  LeaseAll(&run, 13);
  CHECK(Fresh(&run, 13) == Units{9});  // 11 is left, but not for it
  // A fourth worker gets it, at once.
  run.Join(14, Role::kWorker);
  LeaseAll(&run, 14);
  CHECK(Fresh(&run, 14) == Units{11});
}

TEST_CASE("synchronous: with staleness so many steps more are open, commits stay in order") {
  FakeCluster run(StepConfig(1));
  run.Start();
  LeaseAll(&run, 11);
  CHECK(Leased(&run, 11) == Units{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (const uint32_t n : {4, 5, 6, 7, 0, 1, 2}) Finish(&run, 11, n);
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0});
  CHECK(Leased(&run, 11) == Units{3, 8, 9, 10, 11});
  Finish(&run, 11, 3);
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 2});
  CHECK(Leased(&run, 11) == Units{8, 9, 10, 11, 12});
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("synchronous: an epoch ends when every server has committed its last step") {
  FakeCluster run(StepConfig());
  run.Start();
  for (uint32_t n = 0; n < 12; ++n) CHECK(run.Work(11));
  run.servers.commits_lost = true;
  CHECK(run.Work(11));
  CHECK(run.status().batches == FakeCluster::kBatches);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK_FALSE(run.Lease(11));
  run.Send(1, StepsCommitted{4});
  CHECK(run.core().phase() == Phase::kTraining);
  run.Send(11, StepsCommitted{4});  // a worker's word is nothing
  run.Send(2, StepsCommitted{3});
  CHECK(run.core().phase() == Phase::kTraining);
  run.Send(2, StepsCommitted{4});
  CHECK(run.core().phase() == Phase::kEvaluating);
  CHECK(run.epochs_done == std::vector<uint32_t>{1});
  run.Send(2, StepsCommitted{4});  // an answer to a repeated message
  run.servers.commits_lost = false;
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("synchronous: what a server has not committed it is told again") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 3; ++n) CHECK(run.Work(11));
  run.servers.commits_lost = true;
  CHECK(run.Work(11));
  run.Send(1, StepsCommitted{1});  // server 1 heard it, server 2 did not
  run.servers.commits_lost = false;
  run.Wait(11000);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 1, 1});
  run.Wait(30000);
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 1, 1});
}

TEST_CASE("synchronous: where the run begins is told again to a server that did not hear it") {
  FakeCluster run(StepConfig());
  run.servers.commits_lost = true;
  run.Start();
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0});
  run.servers.commits_lost = false;
  run.Wait(11000);
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 0});
  run.Wait(30000);
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 0});
}

TEST_CASE("synchronous: leases of a step that is not open do not expire") {
  Config config = StepConfig();
  FakeCluster run(config);
  run.Start(2);
  for (int n = 0; n < 6; ++n) CHECK(run.Lease(11));
  run.Wait(config.cluster.lease_timeout_ms + 2000);
  CHECK(Leased(&run, 11) == Units{0, 1, 2, 3, 4, 5});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == Units{0, 1, 2, 3, 6, 7});
  for (uint32_t n = 0; n < 4; ++n) Finish(&run, 12, n);
  CHECK(Leased(&run, 12) == Units{6, 7, 8});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == Units{6, 7, 8, 9});
  // Once its step is open it has the whole time, and no more.
  run.Wait(config.cluster.lease_timeout_ms - 2000);
  CHECK_FALSE(run.Lease(12));
  run.Wait(4000);
  CHECK(Leased(&run, 12) == Units{6, 7, 8, 9, 4});  // unasked
  LeaseAll(&run, 12);                               // what it leased of that step is late as well
  CHECK(Leased(&run, 12) == Units{6, 7, 8, 9, 4, 5, 6, 7});
}

TEST_CASE("synchronous: the batches of a worker that dies are leased again, and the step commits") {
  FakeCluster run(StepConfig());
  run.Start(2);
  CHECK(run.Lease(11));
  CHECK(run.Lease(11));
  Finish(&run, 11, 0);
  for (int n = 0; n < 4; ++n) CHECK(run.Lease(12));  // units 2 and 3, and two of the next step
  CHECK_FALSE(run.Lease(12));
  Finish(&run, 12, 2);
  Finish(&run, 12, 3);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0});
  CHECK(Leased(&run, 12) == Units{4, 5});
  run.Silence(11);
  run.Wait(8000);
  CHECK(run.core().roster().Count(Role::kWorker) == 1);
  CHECK(run.CountTo<DropBatches>(1) == 1);
  CHECK(Leased(&run, 12) == Units{4, 5, 1});  // though it has units that wait
  Finish(&run, 12, 1);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  CHECK(run.promise.counted.size() == 2 * FakeCluster::kBatches);
  for (const auto& [batch, times] : run.promise.counted) CHECK(times == 1);
}

TEST_CASE("synchronous: a server that cannot commit ends the run") {
  FakeCluster run(StepConfig());
  run.Start();
  CHECK(run.Work(11));
  run.Send(2,
           ErrorReply{ErrorCode::kRefused, "step 0 cannot be committed: 1 of 4 batches missing"});
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().error().message ==
        "server-2: step 0 cannot be committed: 1 of 4 batches missing");
}

}  // namespace
}  // namespace dslide::synchronous_test
