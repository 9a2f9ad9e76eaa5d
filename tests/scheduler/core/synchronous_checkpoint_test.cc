// Checkpoints and stops in synchronous training.
#include "tests/scheduler/support/step_cluster.h"

namespace dslide::synchronous_checkpoint_test {
namespace {

using Phase = SchedulerCore::Phase;

TEST_CASE("synchronous: a checkpoint holds the steps that count, and nothing waits for it") {
  FakeCluster run(StepConfig());
  run.Start();
  LeaseAll(&run, 11);
  for (uint32_t n = 0; n < 6; ++n) Finish(&run, 11, n);
  AskForCheckpoint(&run);  // two of four batches of the second step are done, leases are out
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.status().batches == 6);
  const Manifest manifest = run.manifests[0];
  CheckHolds(&run, manifest, 1);
  CHECK(run.CountTo<CheckpointDone>(21) == 1);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
  CHECK(run.CountTo<CommitSteps>(1) == 9);

  // The resumed run begins with its second step, with those two batches too.
  FakeCluster resumed(StepConfig(), manifest);
  resumed.Start();
  CHECK(Commits(&resumed, 1) == std::vector<uint64_t>{1});
  LeaseAll(&resumed, 11);
  CHECK(Leased(&resumed, 11) == Units{4, 5, 6, 7, 8, 9, 10, 11});
  resumed.WorkAll(11);
  CHECK(resumed.core().outcome().ok());
  CHECK(resumed.status().batches == 26);
  CHECK(resumed.status().samples == 100);
  CHECK(resumed.promise.counted.size() == 22);
  CHECK(Commits(&resumed, 2) == std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("synchronous: while servers save, leases, commits and the epoch's end go on") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 4; ++n) CHECK(run.Work(11));
  run.servers_answer = false;
  AskForCheckpoint(&run);
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  for (int n = 4; n < 13; ++n) CHECK(run.Work(11));
  CHECK(run.status().batches == FakeCluster::kBatches);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1, 2, 3, 4});
  for (const uint64_t server : {1, 2}) run.Send(server, StepsCommitted{4});
  CHECK(run.core().phase() == Phase::kEvaluating);
  CHECK(run.manifests.empty());
  run.servers_answer = true;  // now they come to the request, which was sent before the commits
  run.Tick();
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 1);
  CHECK(run.epochs_done == std::vector<uint32_t>{1});
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("synchronous: a checkpoint that finds a server at another step is taken again") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 3; ++n) CHECK(run.Work(11));
  run.servers.commits_lost = true;
  CHECK(run.Work(11));
  AskForCheckpoint(&run);
  CHECK(run.CountTo<CheckpointRequest>(2) == 1);
  CHECK(run.core().phase() == Phase::kTraining);
  run.Wait(3000);
  CHECK(run.CountTo<CheckpointRequest>(2) == 4);  // once a second
  CHECK(run.manifests.empty());
  run.servers.commits_lost = false;
  for (int n = 4; n < 6; ++n) CHECK(run.Work(11));
  run.Wait(9000);  // the commit is said again
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 1);
  CHECK(run.CountTo<CheckpointDone>(21) == 1);
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE(
    "synchronous: what a server saves is what the manifest says, though its request was lost") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 4; ++n) CHECK(run.Work(11));
  run.servers.checkpoints_lost = 2;
  AskForCheckpoint(&run);
  run.servers.checkpoints_lost = 0;
  for (int n = 4; n < 8; ++n) CHECK(run.Work(11));
  CHECK(run.manifests.empty());
  run.Wait(12000);  // the request is sent again
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 2);  // server 2 had gone on, so that it was another one
}

TEST_CASE("synchronous: a checkpoint by the clock does not hold back leases") {
  Config config = StepConfig();
  config.checkpoint.interval_s = 10;
  config.cluster.lease_timeout_ms = 60000;
  FakeCluster run(config);
  run.Start();
  for (int n = 0; n < 5; ++n) CHECK(run.Work(11));
  run.servers_answer = false;
  run.Wait(11000);
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  CHECK(run.Lease(11));
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 1);
  // The next one is due when something new counts.
  run.Wait(11000);
  CHECK(run.manifests.size() == 1);
  for (int n = 5; n < 8; ++n) CHECK(run.Work(11));
  run.Wait(11000);
  REQUIRE(run.manifests.size() == 2);
  CheckHolds(&run, run.manifests[1], 2);
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

// The stop has ended the run with a checkpoint of so many steps.
void CheckStopped(FakeCluster* run, uint64_t steps) {
  REQUIRE(run->core().phase() == Phase::kFinished);
  REQUIRE_FALSE(run->core().outcome().ok());
  CHECK(run->core().outcome().error().kind == ErrorKind::kPreempted);
  REQUIRE_FALSE(run->manifests.empty());
  CheckHolds(run, run->manifests.back(), steps);
  CHECK(run->core().outcome().error().message == "stopped after " + std::to_string(4 * steps) +
                                                     " batches; the checkpoint is /checkpoints/" +
                                                     run->manifests.back().name);
}

TEST_CASE(
    "synchronous: a stop saves the steps that count at once, and a resume goes on from there") {
  FakeCluster first(StepConfig(1));
  first.Start(2);
  CHECK(first.Lease(12));  // unit 0
  for (int n = 0; n < 5; ++n) CHECK(first.Work(11));
  Finish(&first, 12, 0);
  LeaseAll(&first, 12);
  first.Stop();  // two batches of the second step are done
  CheckStopped(&first, 1);
  const Manifest manifest = first.manifests[0];
  FakeCluster second(StepConfig(1), manifest);
  second.Start();
  CHECK(Commits(&second, 1) == std::vector<uint64_t>{1});
  second.WorkAll(11);
  CHECK(second.core().outcome().ok());
  CHECK(second.status().batches == 26);
  CHECK(second.status().samples == 100);
  CHECK(second.promise.counted.size() == 22);
  for (const auto& [id, times] : second.promise.counted) {
    CHECK(times == 1);
    CHECK((id.epoch == 1 || id.unit >= 4));
  }

  // At the end of all epochs servers are told too.
  FakeCluster third(StepConfig(), second.manifests.at(0));
  third.Start();
  CHECK(Commits(&third, 1) == std::vector<uint64_t>{8});
  third.WorkAll(11);
  CHECK(third.core().outcome().ok());

  // A resumed run that is stopped before something new counts has its checkpoint already.
  FakeCluster fourth(StepConfig(), manifest);
  fourth.Start();
  CHECK(fourth.Work(11));
  fourth.Stop();
  REQUIRE(fourth.core().phase() == Phase::kFinished);
  CHECK(fourth.manifests.empty());
  CHECK(fourth.core().outcome().error().message ==
        "stopped after 4 batches; the checkpoint is /checkpoints/step-000000000004");
}

TEST_CASE("synchronous: a stop before the first step is complete saves the beginning") {
  FakeCluster run(StepConfig());
  run.Start();
  CHECK(run.Work(11));
  run.Stop();
  CheckStopped(&run, 0);
  FakeCluster resumed(StepConfig(), run.manifests[0]);
  resumed.Start();
  CHECK(Commits(&resumed, 1) == std::vector<uint64_t>{0});
  resumed.WorkAll(11);
  CHECK(resumed.core().outcome().ok());
  resumed.CheckAllCountedOnce();
}

TEST_CASE("synchronous: a stop gives no more leases, what is complete after it is not saved") {
  FakeCluster run(StepConfig());
  run.Start();
  LeaseAll(&run, 11);
  for (uint32_t n = 0; n < 4; ++n) Finish(&run, 11, n);
  CHECK(Leased(&run, 11) == Units{4, 5, 6, 7, 8});
  run.servers_answer = false;
  run.Stop();
  CHECK(run.core().phase() == Phase::kTraining);
  for (uint32_t n = 4; n < 8; ++n) Finish(&run, 11, n);
  CHECK_FALSE(run.Lease(11));
  CHECK(Leased(&run, 11) == Units{8});
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1, 2});
  run.servers_answer = true;
  run.Tick();
  CheckStopped(&run, 1);
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
}

TEST_CASE("synchronous: a stop that reaches the workers too saves the steps that are complete") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 3; ++n) CHECK(run.Work(11));
  run.servers.commits_lost = true;
  for (int n = 3; n < 5; ++n) CHECK(run.Work(11));
  run.Stop();
  run.Send(11, Leave{});  // nobody is left to bring the second step to its end
  CHECK(run.core().phase() == Phase::kTraining);
  run.servers.commits_lost = false;
  run.Wait(12000);
  CheckStopped(&run, 1);
}

TEST_CASE("synchronous: a stop while a checkpoint is being written saves what is complete since") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 4; ++n) CHECK(run.Work(11));
  run.servers_answer = false;
  AskForCheckpoint(&run);
  for (int n = 4; n < 8; ++n) CHECK(run.Work(11));
  run.Stop();
  CHECK_FALSE(run.Lease(11));
  CHECK(run.core().phase() == Phase::kTraining);
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.manifests.size() == 2);
  CheckHolds(&run, run.manifests[0], 1);
  CheckStopped(&run, 2);
  CHECK(run.CountTo<CheckpointDone>(21) == 1);
}

TEST_CASE("synchronous: a stop between two epochs saves the first") {
  FakeCluster run(StepConfig());
  run.Start();
  while (run.core().phase() == Phase::kTraining) REQUIRE(run.Work(11));
  REQUIRE(run.core().phase() == Phase::kEvaluating);
  run.Stop();
  REQUIRE(run.core().phase() == Phase::kFinished);
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].epoch == 1);
  CHECK(run.manifests[0].batches == FakeCluster::kBatches);
  CHECK(run.manifests[0].samples == FakeCluster::kSamples);
  CHECK(run.manifests[0].done.empty());
  CHECK(run.servers.saved.at({run.manifests[0].name, 2}) == 4);
}

}  // namespace
}  // namespace dslide::synchronous_checkpoint_test
