// The scheduler's checkpoints, stops and resumes.
#include "tests/scheduler/fake_cluster.h"

namespace dslide {
namespace {

using Phase = SchedulerCore::Phase;

ErrorKind OutcomeKind(FakeCluster* run) {
  REQUIRE(run->core().phase() == Phase::kFinished);
  REQUIRE_FALSE(run->core().outcome().ok());
  return run->core().outcome().error().kind;
}

// Trains batches of the first epoch, then stops in the middle of a unit.
Manifest StopAfter(FakeCluster* run, int batches) {
  run->Start();
  for (int i = 0; i < batches; ++i) CHECK(run->Work(11));
  run->Stop();
  while (!run->work[11].empty()) CHECK(run->Work(11));  // what is leased is finished
  CHECK(OutcomeKind(run) == ErrorKind::kPreempted);
  REQUIRE(run->manifests.size() == 1);
  return run->manifests[0];
}

TEST_CASE("a stop waits for the leases, writes a checkpoint and asks for a restart") {
  FakeCluster run;
  const Manifest manifest = StopAfter(&run, 4);
  CHECK(manifest.epoch == 0);
  CHECK(manifest.batches == 6);
  CHECK(manifest.done.size() == 6);
  CHECK(manifest.train_samples == FakeCluster::kSamples);
  CHECK(manifest.run == RunId{77});
  CHECK(std::get<Shutdown>(run.LastTo(11)).exit_code == 85);
  CHECK(run.core().outcome().error().message ==
        "stopped after 6 batches; the checkpoint is /checkpoints/step-000000000006");
}

TEST_CASE("a report that comes after a checkpoint has begun is not claimed by it") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  CHECK(run.Work(11));
  const auto [grant, batch] = run.work[11].front();  // the unit's third batch takes long
  for (run.now = 4000; run.now <= 16000; run.now += 4000) {
    run.Send(11, Heartbeat{});
    run.Tick();  // the lease expires
  }
  run.servers_answer = false;
  run.Stop();
  run.Send(11, FakeCluster::Report(grant, batch));
  CHECK(run.core().counted_batches() == 3);
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].batches == 2);
  CHECK(run.manifests[0].done.size() == 2);
}

TEST_CASE("a checkpoint that is wanted during an evaluation waits for its end") {
  FakeCluster run;
  run.Start();
  while (run.core().phase() == Phase::kTraining) REQUIRE(run.Work(11));
  REQUIRE(run.core().phase() == Phase::kEvaluating);
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  CHECK(run.CountTo<CheckpointDone>(21) == 1);
  run.CheckAllCountedOnce();
}

TEST_CASE("a checkpoint is not written over by one of the same batches") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  while (!run.work[11].empty()) CHECK(run.Work(11));
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  run.Send(21, CheckpointNow{});
  CHECK(run.manifests.size() == 1);
  CHECK(run.CountTo<CheckpointDone>(21) == 2);  // both are told where it lies
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
}

TEST_CASE("a checkpoint request without an answer is sent again") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  while (!run.work[11].empty()) CHECK(run.Work(11));
  run.servers_answer = false;
  run.Stop();
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  for (run.now = 4000; run.now <= 12000; run.now += 4000) {
    run.Send(11, Heartbeat{});
    run.Tick();
  }
  CHECK(run.CountTo<CheckpointRequest>(1) == 2);
}

TEST_CASE("a resumed run trains what is left, and nothing twice") {
  FakeCluster first;
  const Manifest manifest = StopAfter(&first, 4);
  FakeCluster second(RunConfig(), manifest);
  second.counted = first.counted;
  second.samples = first.samples;
  second.Start();
  CHECK(std::get<Plan>(second.received["peer-1"][1]).restore == "/checkpoints/step-000000000006");
  CHECK(second.core().work().batches == 0);
  second.WorkAll(11);
  CHECK(second.core().outcome().ok());
  CHECK(second.core().counted_batches() == 26);
  CHECK(second.core().work().batches == 20);
  second.CheckAllCountedOnce();
}

TEST_CASE("a resume with a whole epoch done, or with all of them, goes on from there") {
  FakeCluster first;
  Manifest manifest = StopAfter(&first, 13);  // in the evaluation after the first epoch
  CHECK(manifest.epoch == 1);
  CHECK(manifest.done.empty());
  FakeCluster second(RunConfig(), manifest);
  second.counted = first.counted;
  second.samples = first.samples;
  second.Start();
  second.WorkAll(11);
  second.CheckAllCountedOnce();

  REQUIRE(second.manifests.size() == 1);
  FakeCluster third(RunConfig(), second.manifests[0]);
  third.Start();
  CHECK(third.core().phase() == Phase::kEvaluating);
  third.WorkAll(11);
  CHECK(third.core().outcome().ok());
  CHECK(third.manifests.empty());  // nothing new to save
  CHECK(third.evaluations.at(0).final);

  // The end of the epoch is saved, but the epoch is not closed: its last batch was the
  // checkpoint's.
  manifest.epoch = 0;
  for (uint32_t n = 0; n < 13; ++n) manifest.done.push_back({n / 3, n % 3});
  FakeCluster fourth(RunConfig(), manifest);
  fourth.Start();
  CHECK(fourth.core().phase() == Phase::kEvaluating);
  CHECK(fourth.epochs_done == std::vector<uint32_t>{1});
}

TEST_CASE("a checkpoint by the clock pauses the leases until the servers have saved") {
  Config config = RunConfig();
  config.checkpoint.interval_s = 10;
  config.cluster.lease_timeout_ms = 60000;
  FakeCluster run(config);
  run.Start();
  CHECK(run.Work(11));
  run.now = 10001;
  run.servers_answer = false;
  for (const uint64_t member : {1, 2, 11}) run.Send(member, Heartbeat{});
  run.Tick();
  CHECK(run.CountTo<CheckpointRequest>(1) == 0);  // two batches are out
  CHECK_FALSE(run.Lease(11));
  CHECK(run.Work(11));
  CHECK(run.Work(11));
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  CHECK_FALSE(run.Lease(11));
  CHECK(run.manifests.empty());
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].batches == 3);
  CHECK(run.manifests[0].done.size() == 3);
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("an observer's checkpoint is answered when it is written") {
  FakeCluster run;
  run.Join(1, Role::kServer);
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  CHECK(std::get<ErrorReply>(run.LastTo(21)).code == ErrorCode::kRefused);
  run.Join(2, Role::kServer);
  run.Join(11, Role::kWorker);
  CHECK(run.Work(11));
  run.Send(21, CheckpointNow{});
  CHECK(run.CountTo<CheckpointDone>(21) == 0);
  CHECK(run.Work(11));
  CHECK(run.Work(11));
  const auto done = std::get<CheckpointDone>(run.LastTo(21));
  CHECK(done.name == "step-000000000003");
  CHECK(done.shard == "/checkpoints/step-000000000003");
  CHECK(done.error.empty());
}

TEST_CASE("a stop during an evaluation saves the epoch; a second stop ends at once") {
  FakeCluster run;
  run.Start();
  while (run.core().phase() == Phase::kTraining) CHECK(run.Work(11));
  run.Stop();
  CHECK(OutcomeKind(&run) == ErrorKind::kPreempted);
  CHECK(run.manifests.at(0).epoch == 1);

  FakeCluster hasty;
  hasty.Start();
  CHECK(hasty.Work(11));
  hasty.Stop();
  CHECK(hasty.core().phase() == Phase::kTraining);
  hasty.Stop();
  CHECK(OutcomeKind(&hasty) == ErrorKind::kFailed);
  CHECK(hasty.manifests.empty());

  FakeCluster final;
  final.Start();
  while (final.manifests.empty()) CHECK(final.Work(11));
  CHECK(final.core().phase() == Phase::kEvaluating);
  final.Stop();
  CHECK(OutcomeKind(&final) == ErrorKind::kPreempted);
  CHECK(final.manifests.size() == 1);
}

TEST_CASE("a stop before training has nothing to save") {
  FakeCluster run;
  run.Join(1, Role::kServer);
  run.Stop();
  CHECK(OutcomeKind(&run) == ErrorKind::kTryLater);
}

TEST_CASE("a failed checkpoint ends the run and names the server") {
  FakeCluster run;
  run.checkpoint_error = "no space left on device";
  run.Start();
  run.WorkAll(11);
  CHECK(OutcomeKind(&run) == ErrorKind::kFailed);
  CHECK(run.core().outcome().error().message ==
        "checkpoint step-000000000026: server-2: no space left on device");
  CHECK(run.manifests.empty());

  FakeCluster unwritten;
  unwritten.manifest_status = Failed("manifest: cannot sync");
  unwritten.Start();
  unwritten.WorkAll(11);
  CHECK(OutcomeKind(&unwritten) == ErrorKind::kFailed);
  CHECK(unwritten.core().last_checkpoint().empty());
}

}  // namespace
}  // namespace dslide
