// The scheduler's checkpoints, stops and resumes.
#include "scheduler/base/events.h"
#include "tests/scheduler/support/actions.h"
#include "tests/scheduler/support/fake_cluster.h"

namespace dslide::checkpointing_test {
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
  CHECK(OutcomeKind(run) == ErrorKind::kPreempted);
  REQUIRE(run->manifests.size() == 1);
  return run->manifests[0];
}

TEST_CASE("a stop writes a checkpoint of what counts at once, and asks for a restart") {
  FakeCluster run;
  const Manifest manifest = StopAfter(&run, 4);
  CHECK(run.work(11).size() == 1);  // leased, but nobody waits for it
  CHECK(manifest.epoch == 0);
  CHECK(manifest.batches == 4);
  CHECK(manifest.done.size() == 4);
  CHECK(manifest.train_samples == FakeCluster::kSamples);
  CHECK(manifest.run == RunId{77});
  CHECK(std::get<Shutdown>(run.LastTo(11)).exit_code == 85);
  CHECK(run.core().outcome().error().message ==
        "stopped after 4 batches; the checkpoint is /checkpoints/step-000000000004");
  CHECK_FALSE(run.ledger.live);
  CHECK_FALSE(run.ledger.finished);
}

TEST_CASE("a report that comes after a checkpoint has begun is not claimed by it") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  CHECK(run.Work(11));
  CHECK(run.Lease(11));
  run.servers_answer = false;
  run.Stop();
  CHECK(run.Work(11));
  CHECK(run.status().batches == 3);
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].batches == 2);
  CHECK(run.manifests[0].done.size() == 2);
  CHECK(run.manifests[0].samples == 8);
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
  while (!run.work(11).empty()) CHECK(run.Work(11));
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
  run.servers_answer = false;
  run.Stop();
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  run.Wait(12000);
  CHECK(run.CountTo<CheckpointRequest>(1) == 2);
  run.servers_answer = true;
  run.Tick();
  CHECK(OutcomeKind(&run) == ErrorKind::kPreempted);
  CHECK(run.manifests.size() == 1);
}

TEST_CASE("a resumed run trains what is left, and nothing twice") {
  FakeCluster first;
  const Manifest manifest = StopAfter(&first, 4);
  FakeCluster second(RunConfig(), manifest);
  second.promise = first.promise;
  second.Start();
  CHECK(second.PlanOf(1).restore == "/checkpoints/step-000000000004");
  CHECK(second.status().work.batches == 0);
  second.WorkAll(11);
  CHECK(second.core().outcome().ok());
  CHECK(second.status().batches == 26);
  CHECK(second.status().work.batches == 22);
  second.CheckAllCountedOnce();
}

TEST_CASE("a resume with a whole epoch done, or with all of them, goes on from there") {
  FakeCluster first;
  Manifest manifest = StopAfter(&first, 13);  // in the evaluation after the first epoch
  CHECK(manifest.epoch == 1);
  CHECK(manifest.done.empty());
  FakeCluster second(RunConfig(), manifest);
  second.promise = first.promise;
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
  CHECK(third.evaluations.at(0).set == EvaluationSet::kTest);

  // The end of the epoch is saved, but the epoch is not closed: its last batch was the
  // checkpoint's.
  manifest.epoch = 0;
  for (uint32_t n = 0; n < 13; ++n) manifest.done.push_back({n / 3, n % 3});
  FakeCluster fourth(RunConfig(), manifest);
  fourth.Start();
  CHECK(fourth.core().phase() == Phase::kEvaluating);
  CHECK(fourth.epochs_done == std::vector<uint32_t>{1});
}

TEST_CASE("nothing waits while a checkpoint by the clock is being written") {
  Config config = RunConfig();
  config.checkpoint.interval_s = 10;
  FakeCluster run(config);
  run.Start();
  CHECK(run.Work(11));
  run.servers_answer = false;
  run.Wait(9000);
  CHECK(run.CountTo<CheckpointRequest>(1) == 0);
  run.Wait(1000);
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  for (int i = 0; i < 4; ++i) CHECK(run.Work(11));  // the rest of that unit, and of another
  CHECK(run.status().batches == 5);
  CHECK(run.manifests.empty());
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].batches == 1);
  CHECK(run.manifests[0].done.size() == 1);
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
  run.servers_answer = false;
  run.Send(21, CheckpointNow{});
  CHECK(run.CountTo<CheckpointDone>(21) == 0);
  run.servers_answer = true;
  run.Tick();
  const auto done = std::get<CheckpointDone>(run.LastTo(21));
  CHECK(done.name == "step-000000000001");
  CHECK(done.shard == "/checkpoints/step-000000000001");
  CHECK(done.error.empty());
  // Server 2's.
  CHECK(run.Noticed(event::kCheckpointWritten,
                    {{"checkpoint", "step-000000000001"}, {"stall_us", 2500}}));
}

TEST_CASE("servers are told which earlier checkpoints stay") {
  Config config = RunConfig();
  config.checkpoint.keep = 2;
  FakeCluster run(config);
  run.Start();
  run.Join(21, Role::kObserver);
  for (int i = 0; i < 4; ++i) {
    CHECK(run.Work(11));
    run.Send(21, CheckpointNow{});
  }
  std::vector<std::vector<std::string>> keep;
  for (const Body& body : run.received["peer-1"]) {
    const auto* request = std::get_if<CheckpointRequest>(&body);
    if (request != nullptr) keep.push_back(request->keep);
  }
  REQUIRE(keep.size() == 4);
  CHECK(keep[0].empty());
  CHECK(keep[1] == std::vector<std::string>{"step-000000000001"});
  CHECK(keep[3] == std::vector<std::string>{"step-000000000002", "step-000000000003"});
}

TEST_CASE("a stop during an evaluation saves the epoch, a second stop ends at once") {
  FakeCluster run;
  run.Start();
  while (run.core().phase() == Phase::kTraining) CHECK(run.Work(11));
  run.Stop();
  CHECK(OutcomeKind(&run) == ErrorKind::kPreempted);
  CHECK(run.manifests.at(0).epoch == 1);

  FakeCluster hasty;
  hasty.Start();
  CHECK(hasty.Work(11));
  hasty.servers_answer = false;
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

// Time passes while checkpoints fail, until the run ends.
void FailFor(FakeCluster* run, int seconds) {
  for (int s = 0; s <= seconds && run->core().phase() != Phase::kFinished; ++s) run->Wait(1000);
}

TEST_CASE("the last checkpoint of a run is tried again for ten minutes, then the run ends") {
  FakeCluster run;
  run.servers.checkpoint_error = "no space left on device";
  run.Start();
  run.WorkAll(11);
  CHECK(run.Noticed(
      event::kCheckpointFailed,
      {{"why", "server-2: no space left on device"}, {"training", false}, {"last", ""}}));
  CHECK(run.core().phase() == Phase::kTraining);
  FailFor(&run, 620);
  CHECK(OutcomeKind(&run) == ErrorKind::kFailed);
  CHECK(run.core().outcome().error().message ==
        "checkpoint step-000000000026: server-2: no space left on device");
  CHECK(run.manifests.empty());

  FakeCluster unwritten;
  unwritten.manifest_status = Failed("manifest: cannot sync");
  unwritten.Start();
  unwritten.WorkAll(11);
  FailFor(&unwritten, 620);
  CHECK(OutcomeKind(&unwritten) == ErrorKind::kFailed);
  CHECK(unwritten.status().last_checkpoint.empty());

  FakeCluster stopped;
  stopped.servers.checkpoint_error = "no space left on device";
  stopped.Start();
  CHECK(stopped.Work(11));
  stopped.Stop();
  FailFor(&stopped, 15);
  stopped.servers.checkpoint_error.clear();
  FailFor(&stopped, 10);
  CHECK(OutcomeKind(&stopped) == ErrorKind::kPreempted);
}

TEST_CASE("the last checkpoint of a run that is to stop is tried for twenty seconds") {
  FakeCluster run;
  run.servers.checkpoint_error = "no space left on device";
  run.Start();
  SUBCASE("in training") { CHECK(run.Work(11)); }
  SUBCASE("after the last epoch") {
    run.WorkAll(11);
    FailFor(&run, 300);
  }
  CHECK(run.core().phase() == Phase::kTraining);
  run.Stop();
  FailFor(&run, 19);
  CHECK(run.core().phase() == Phase::kTraining);
  FailFor(&run, 5);
  CHECK(OutcomeKind(&run) == ErrorKind::kFailed);
  CHECK(run.core().outcome().error().message.ends_with(": server-2: no space left on device"));
}

TEST_CASE("a run that is stopped while the ledger has no room ends with its newest checkpoint") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  SUBCASE("nothing") {
    const auto effects = run.core().StopWithoutLedger(run.now);
    CHECK(effects.ledger.empty());
    CHECK(MessagesIn(effects).size() == 3);
    CHECK(OutcomeKind(&run) == ErrorKind::kTryLater);
  }
  SUBCASE("a checkpoint") {
    run.Join(21, Role::kObserver);
    run.Send(21, CheckpointNow{});
    REQUIRE(run.manifests.size() == 1);
    (void)run.core().StopWithoutLedger(run.now);
    CHECK(OutcomeKind(&run) == ErrorKind::kPreempted);
    CHECK(run.core().outcome().error().message ==
          "stopped while the ledger's disk had no room; the checkpoint is "
          "/checkpoints/step-000000000001");
  }
}

TEST_CASE("a failed checkpoint by the clock is a notice, and tried again after half a minute") {
  Config config = RunConfig();
  config.checkpoint.interval_s = 10;
  FakeCluster run(config);
  run.Start();
  CHECK(run.Work(11));
  SUBCASE("a server's part") { run.servers.checkpoint_error = "no space left on device"; }
  SUBCASE("the manifest") { run.manifest_status = Failed("no space left on device"); }
  run.Wait(10000);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.Noticed(event::kCheckpointFailed, {{"training", true}, {"last", ""}}));
  CHECK(run.manifests.empty());
  run.servers.checkpoint_error.clear();
  run.manifest_status = {};
  CHECK(run.Work(11));
  run.Wait(29000);
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  run.Wait(1000);
  CHECK(run.CountTo<CheckpointRequest>(1) == 2);
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].batches == 2);
  CHECK(run.status().last_checkpoint == "/checkpoints/step-000000000002");
}

TEST_CASE("who asks for a checkpoint, or stops the run, does not wait for an earlier failure") {
  Config config = RunConfig();
  config.checkpoint.interval_s = 10;
  FakeCluster run(config);
  run.Start();
  CHECK(run.Work(11));
  run.servers.checkpoint_error = "no space left on device";
  run.Wait(10000);
  run.servers.checkpoint_error.clear();
  SUBCASE("asks") {
    run.Join(21, Role::kObserver);
    run.Send(21, CheckpointNow{});
    CHECK(run.CountTo<CheckpointDone>(21) == 1);
  }
  SUBCASE("stops") {
    run.Stop();
    CHECK(OutcomeKind(&run) == ErrorKind::kPreempted);
  }
  CHECK(run.manifests.size() == 1);
}

TEST_CASE("a checkpoint that a server asks to take again is taken again after a second") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  run.servers_answer = false;
  run.Stop();
  CheckpointDone retry;
  retry.name = "step-000000000001";
  retry.error = "an earlier one is still being written";
  retry.retry = true;
  run.Send(2, retry);
  for (int i = 0; i < 5; ++i) run.Tick();
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.CountTo<CheckpointRequest>(2) == 1);
  run.Wait(1000);
  CHECK(run.CountTo<CheckpointRequest>(2) == 2);
  run.servers_answer = true;
  run.Tick();
  CHECK(OutcomeKind(&run) == ErrorKind::kPreempted);
  CHECK(run.manifests.size() == 1);
}

TEST_CASE("only the plan's servers say how a checkpoint goes") {
  FakeCluster run;
  run.Start();
  run.Join(3, Role::kServer);
  CHECK(run.Work(11));
  run.servers_answer = false;
  run.Stop();
  CheckpointDone done;
  done.name = "step-000000000001";
  done.error = "who are you";
  run.Send(3, done);
  run.Send(11, done);
  done.retry = true;
  run.Send(3, done);
  done.retry = false;
  run.Say({{77}, {2}, 1, 0, 7}, done);  // of another plan
  CHECK(run.core().phase() == Phase::kTraining);
  run.servers_answer = true;
  run.Tick();
  CHECK(OutcomeKind(&run) == ErrorKind::kPreempted);
}

TEST_CASE("a checkpoint that is asked for while a server is away is written when it is back") {
  FakeCluster run;
  run.Start();
  REQUIRE(run.Work(11));
  run.Silence(2);
  run.Wait(8000);
  REQUIRE(run.core().phase() == Phase::kGathering);
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  CHECK(run.CountTo<ErrorReply>(21) == 0);
  run.Return(2);
  run.Wait(1000);
  CHECK(run.manifests.size() == 1);
  CHECK(run.CountTo<CheckpointDone>(21) == 1);
}

}  // namespace
}  // namespace dslide::checkpointing_test
