// Servers that are lost, come back, are replaced, or whose slots the others take over.
#include "scheduler/base/events.h"
#include "tests/scheduler/support/actions.h"
#include "tests/scheduler/support/fake_cluster.h"

namespace dslide::recovery_test {
namespace {

using Phase = SchedulerCore::Phase;

constexpr int64_t kLostMs = 8000;  // a silence that no member survives

Config PatientConfig() {
  Config config = RunConfig();
  config.cluster.takeover_s = 0;
  return config;
}

// Trains `saved` batches, has them saved, and trains `more`.
void TrainSaveTrain(FakeCluster* run, int saved, int more) {
  for (int i = 0; i < saved; ++i) CHECK(run->Work(11));
  run->Join(21, Role::kObserver);
  run->Send(21, CheckpointNow{});
  REQUIRE(run->manifests.size() == 1);
  for (int i = 0; i < more; ++i) CHECK(run->Work(11));
}

void FinishAndCheck(FakeCluster* run, uint64_t worker = 11) {
  run->WorkAll(worker);
  REQUIRE(run->core().phase() == Phase::kFinished);
  CHECK(run->core().outcome().ok());
  CHECK(run->ledger.finished);
  run->CheckPromise();
  run->CheckAllCountedOnce();
}

template <typename T>
std::vector<T> EntriesOf(const FakeCluster& run) {
  std::vector<T> found;
  for (const LedgerEntry& entry : run.entries) {
    if (const T* e = std::get_if<T>(&entry)) found.push_back(*e);
  }
  return found;
}

TEST_CASE("recovery: a run's first plan is in the ledger, behind where it begins") {
  FakeCluster run;
  run.Start();
  REQUIRE(run.entries.size() == 3);
  const auto& opened = std::get<LedgerOpened>(run.entries[0]);
  CHECK(opened.run == RunId{77});
  CHECK(opened.config == FormatConfig(run.core().run().config));
  CHECK(opened.train_samples == FakeCluster::kSamples);
  CHECK(std::get<LedgerRestored>(run.entries[1]) == LedgerRestored{});
  CHECK(std::get<LedgerPlanned>(run.entries[2]).plan == run.PlanOf(1));
  CHECK(run.PlanOf(1).servers[1].incarnation == Incarnation{2});
  CHECK(run.PlanOf(1).restore.empty());
  CHECK(run.status().recoveries == 0);
}

TEST_CASE("recovery: a server that was only silent comes back as it was, and nothing is lost") {
  FakeCluster run(PatientConfig());
  run.Start(2);
  TrainSaveTrain(&run, 2, 3);
  CHECK(run.Lease(12));
  run.Silence(2);
  run.Wait(kLostMs);
  CHECK(run.core().phase() == Phase::kGathering);
  CHECK(run.status().waiting.starts_with("waiting for server-2 or a replacement"));
  CHECK_FALSE(run.Lease(11));
  // Its part of batches in flight may have been done before; they count.
  CHECK(run.Work(12));
  CHECK(run.status().batches == 6);
  const int64_t trained_ms = run.status().training_ms;
  run.Wait(60000);
  CHECK(run.status().training_ms == trained_ms);
  run.Return(2);  // and is told to join again
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.core().plan_version() == 1);
  CHECK(run.status().recoveries == 0);
  CHECK(run.status().batches == 6);
  CHECK(run.Noticed(event::kServersBack));
  CHECK(run.Work(12));  // leases did not expire meanwhile
  CHECK(run.status().batches == 7);
  run.Send(12, Leave{});
  FinishAndCheck(&run);
  CHECK(EntriesOf<LedgerPlanned>(run).size() == 1);
}

TEST_CASE("recovery: a spare takes the seat, and all go back to the last checkpoint together") {
  FakeCluster run;
  run.Start();
  TrainSaveTrain(&run, 2, 3);
  REQUIRE(run.Lease(11));
  run.Join(3, Role::kServer);
  run.Silence(2);
  run.servers_answer = false;
  run.Wait(kLostMs);
  CHECK(run.core().phase() == Phase::kLoading);
  CHECK(run.core().plan_version() == 2);
  CHECK(run.status().batches == 2);
  CHECK(run.status().samples == 8);
  CHECK(run.status().work.batches == 5);  // also what has to be done again
  CHECK(run.status().recoveries == 1);
  const Plan plan = run.PlanOf(3);
  CHECK(plan.version == 2);
  CHECK(plan.restore == "/checkpoints/step-000000000002");
  REQUIRE(plan.servers.size() == 2);
  CHECK(plan.servers[0].incarnation == Incarnation{1});
  CHECK(plan.servers[1].incarnation == Incarnation{3});
  CHECK(run.PlanOf(1) == plan);  // the survivor loads anew as well
  CHECK(run.PlanOf(11).version == 1);
  // The ledger says so before anybody is told.
  const auto restored = EntriesOf<LedgerRestored>(run);
  REQUIRE(restored.size() == 2);
  CHECK(restored[1].checkpoint == "step-000000000002");
  CHECK(restored[1].batches == 2);
  CHECK(restored[1].samples == 8);
  CHECK(restored[1].done.size() == 2);
  CHECK(std::holds_alternative<LedgerRestored>(run.entries[run.entries.size() - 2]));
  CHECK(std::get<LedgerPlanned>(run.entries.back()).plan == plan);
  // Work of the old plan does not count, but its worker need not say it again.
  CHECK(run.work(11).size() == 1);
  const auto [grant, batch] = run.work(11).front();
  run.Say({{77}, {11}, 900, 0, 1}, FakeCluster::Report(grant, batch));
  CHECK(std::holds_alternative<Ack>(run.LastTo(11)));
  CHECK(run.status().batches == 2);
  run.servers_answer = true;
  run.Tick();
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.PlanOf(11) == plan);
  run.Say({{77}, {11}, 901, 0, 1}, FakeCluster::Report(grant, batch));
  CHECK(run.status().batches == 2);
  FinishAndCheck(&run);
  CHECK(run.status().work.batches == 29);
}

TEST_CASE("recovery: without any checkpoint it goes back to the beginning") {
  FakeCluster run;
  run.Start();
  CHECK(run.Work(11));
  run.Join(3, Role::kServer);
  run.Send(1, Leave{});  // gone at once
  CHECK(run.core().plan_version() == 2);
  CHECK(run.status().batches == 0);
  CHECK(run.PlanOf(3).restore.empty());
  CHECK(run.PlanOf(3).servers[0].incarnation == Incarnation{3});
  FinishAndCheck(&run);
}

TEST_CASE("recovery: after cluster.takeover_s the others share the slots") {
  FakeCluster run;  // 30 s
  run.Start();
  TrainSaveTrain(&run, 2, 3);
  run.Silence(1);
  run.Wait(kLostMs);
  CHECK(run.status().waiting ==
        "waiting for server or a replacement (after 30 s the others take over)");
  run.Wait(29000);
  CHECK(run.core().plan_version() == 1);
  run.Wait(2000);
  CHECK(run.core().plan_version() == 2);
  const Plan plan = run.PlanOf(2);
  REQUIRE(plan.servers.size() == 1);
  CHECK(plan.servers[0].incarnation == Incarnation{2});
  for (const uint16_t owner : plan.slot_owner) CHECK(owner == 0);
  // It wakes up too late: its slots are others'.
  run.Return(1);
  CHECK(run.servers.at(1).fenced);
  CHECK(std::get<ErrorReply>(run.LastTo(1)).code == ErrorCode::kFenced);
  FinishAndCheck(&run);
  CHECK(run.manifests.back().shards.size() == 1);
}

TEST_CASE("recovery: a replacement that asks for the name is taken as soon as there is suspicion") {
  Config config = PatientConfig();
  FakeCluster run(config);
  run.Join(1, Role::kServer, "a");
  run.Join(2, Role::kServer, "b");
  run.Join(11, Role::kWorker);
  TrainSaveTrain(&run, 2, 1);
  run.Silence(2);
  SUBCASE("it comes before the death is noticed") {
    run.Wait(1000);
    run.Join(3, Role::kServer, "b");
    CHECK(run.core().plan_version() == 1);
    run.Wait(2000);
    CHECK(run.core().plan_version() == 2);
  }
  SUBCASE("it comes after") {
    run.Wait(kLostMs);
    CHECK(run.core().plan_version() == 1);
    run.Join(3, Role::kServer, "b");
    CHECK(run.core().plan_version() == 2);
  }
  CHECK(run.PlanOf(3).servers[1].incarnation == Incarnation{3});
  // Its own replacement asks for the same name.
  run.Silence(3);
  run.Wait(1000);
  run.Join(4, Role::kServer, "b");
  run.Wait(2000);
  CHECK(run.core().plan_version() == 3);
  CHECK(run.PlanOf(4).servers[1].incarnation == Incarnation{4});
  FinishAndCheck(&run);
}

TEST_CASE("recovery: a spare with the name of the lost one goes before the others") {
  FakeCluster run(PatientConfig());
  run.Join(1, Role::kServer, "a");
  run.Join(2, Role::kServer, "b");
  run.Join(11, Role::kWorker);
  run.Join(3, Role::kServer, "c");
  run.Join(4, Role::kServer, "b");
  run.Silence(2);
  run.Wait(3000);
  REQUIRE(run.core().plan_version() == 2);
  CHECK(run.PlanOf(4).servers[1].incarnation == Incarnation{4});
  CHECK(run.core().roster().Spares().size() == 1);
  FinishAndCheck(&run);
}

TEST_CASE("recovery: two servers are lost at once") {
  FakeCluster run;
  run.Start();
  TrainSaveTrain(&run, 3, 2);
  for (const uint64_t server : {1, 2}) run.Silence(server);
  SUBCASE("one comes back, a spare comes for the other") {
    run.Wait(kLostMs);
    run.Return(1);
    CHECK(run.core().phase() == Phase::kGathering);
    CHECK(run.core().plan_version() == 1);
    run.Join(3, Role::kServer);
    CHECK(run.core().plan_version() == 2);
  }
  SUBCASE("two spares come") {
    run.Wait(kLostMs);
    run.Join(3, Role::kServer);
    CHECK(run.core().plan_version() == 1);
    run.Join(4, Role::kServer);
    CHECK(run.core().plan_version() == 2);
  }
  SUBCASE("one spare comes, and takes all after a while") {
    run.Join(3, Role::kServer);
    run.Wait(kLostMs);
    CHECK(run.core().plan_version() == 1);
    run.Wait(31000);
    CHECK(run.core().plan_version() == 2);
    CHECK(run.PlanOf(3).servers.size() == 1);
  }
  SUBCASE("both come back") {
    run.Wait(kLostMs);
    for (const uint64_t server : {2, 1}) run.Return(server);
    CHECK(run.core().plan_version() == 1);
    CHECK(run.status().batches == 5);
  }
  CHECK(run.core().phase() == Phase::kTraining);
  FinishAndCheck(&run);
}

TEST_CASE("recovery: a server dies while it loads, and another one after that") {
  FakeCluster run;
  run.Join(1, Role::kServer);
  run.servers_answer = false;
  run.Join(2, Role::kServer);
  run.Join(11, Role::kWorker);
  CHECK(run.core().phase() == Phase::kLoading);
  run.Send(1, Ready{1, 5, 100});
  run.Silence(2);
  run.Wait(kLostMs);
  CHECK(run.core().phase() == Phase::kGathering);
  run.Join(3, Role::kServer);
  CHECK(run.core().plan_version() == 2);
  run.Send(1, Ready{1, 5, 100});  // of the old plan
  run.Send(3, Ready{2, 5, 100});
  CHECK(run.core().phase() == Phase::kLoading);
  run.Silence(1);
  run.Wait(kLostMs);
  run.servers_answer = true;
  run.Join(4, Role::kServer);
  CHECK(run.core().plan_version() == 3);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.PlanOf(4).servers[0].incarnation == Incarnation{4});
  FinishAndCheck(&run);
}

TEST_CASE("recovery: a server that is cut off while it loads comes back and goes on loading") {
  FakeCluster run(PatientConfig());
  run.Join(1, Role::kServer);
  run.servers_answer = false;
  run.Join(2, Role::kServer);
  run.Join(11, Role::kWorker);
  run.Silence(2);
  run.Wait(kLostMs);
  run.servers_answer = true;
  run.Tick();
  CHECK(run.core().phase() == Phase::kGathering);
  run.Return(2);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.core().plan_version() == 1);
  FinishAndCheck(&run);
}

TEST_CASE("recovery: a checkpoint that is being written is given up, and taken again") {
  FakeCluster run(PatientConfig());
  run.Start();
  TrainSaveTrain(&run, 2, 2);
  run.servers_answer = false;
  run.Send(21, CheckpointNow{});
  CHECK(run.CountTo<CheckpointRequest>(1) == 2);
  run.Silence(2);
  run.Wait(kLostMs);
  run.servers_answer = true;
  SUBCASE("the server comes back") {
    run.Return(2);
    run.Wait(2000);
    REQUIRE(run.manifests.size() == 2);
    CHECK(run.manifests[1].batches == 4);
  }
  SUBCASE("a spare takes its seat; an answer of the old plan comes late") {
    run.Join(3, Role::kServer);
    CHECK(run.status().batches == 2);
    while (run.status().batches < 4) CHECK(run.Work(11));
    run.servers_answer = false;
    run.Wait(2000);
    CHECK(run.CountTo<CheckpointRequest>(3) >= 1);
    CheckpointDone late;
    late.name = "step-000000000004";
    late.shard = "shard-1-0";
    late.files = {{"CURRENT", 16, 7}};
    late.bytes = 16;
    run.Say({{77}, {1}, 900, 0, 1}, late);
    run.servers_answer = true;
    run.Tick();
    REQUIRE(run.manifests.size() == 2);
    CHECK(run.manifests[1].shards[0].directory == "shard-2-0");
    CHECK(run.manifests[1].shards[1].directory == "shard-2-1");
  }
  CHECK(run.CountTo<CheckpointDone>(21) == 2);
  FinishAndCheck(&run);
}

TEST_CASE("recovery: an evaluation that is interrupted") {
  FakeCluster run(PatientConfig());
  run.Start();
  TrainSaveTrain(&run, 2, 11);
  REQUIRE(run.core().phase() == Phase::kEvaluating);
  CHECK(run.Work(11));
  run.Silence(2);
  run.Wait(kLostMs);
  CHECK(run.core().phase() == Phase::kGathering);
  SUBCASE("goes on if the server comes back") {
    run.Return(2);
    CHECK(run.core().phase() == Phase::kEvaluating);
  }
  SUBCASE("is done again after the epoch's end is trained again") {
    run.Join(3, Role::kServer);
    CHECK(run.core().phase() == Phase::kTraining);
    CHECK(run.status().epoch == 0);
    CHECK(run.status().batches == 2);
  }
  FinishAndCheck(&run);
  CHECK(run.evaluations.size() == 2);
  CHECK(run.evaluations[0].metrics.samples == 6);
  CHECK(run.evaluations[1].set == EvaluationSet::kTest);
}

TEST_CASE("recovery: held-out samples are measured again after their epoch was trained again") {
  FakeCluster run(PatientConfig());
  run.HoldOut({20});
  run.Start();
  TrainSaveTrain(&run, 2, 11);
  while (run.evaluations.empty()) CHECK(run.Work(11));
  REQUIRE(run.evaluations[0].set == EvaluationSet::kHeldOut);
  run.Silence(2);
  run.Wait(kLostMs);
  run.Join(3, Role::kServer);
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.status().epoch == 0);
  run.WorkAll(11);
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().ok());
  std::vector<uint32_t> epochs;
  for (const EvaluationResult& result : run.evaluations) {
    if (result.set == EvaluationSet::kHeldOut) epochs.push_back(result.epoch);
  }
  CHECK(epochs == std::vector<uint32_t>{1, 1, 2});
}

TEST_CASE("recovery: the final evaluation is done again from the last checkpoint") {
  FakeCluster run;
  run.Start();
  while (run.manifests.empty()) CHECK(run.Work(11));
  REQUIRE(run.core().phase() == Phase::kEvaluating);
  CHECK(run.Work(11));
  run.Join(3, Role::kServer);
  run.Send(2, Leave{});
  CHECK(run.core().phase() == Phase::kEvaluating);
  CHECK(run.core().plan_version() == 2);
  CHECK(run.status().batches == 26);
  FinishAndCheck(&run);
  CHECK(run.evaluations.size() == 2);
  CHECK(run.evaluations[1].metrics.samples == 20);
}

TEST_CASE("recovery: a stop while servers are missing ends at once with what is saved") {
  FakeCluster run;
  run.Start();
  SUBCASE("there is a checkpoint") {
    TrainSaveTrain(&run, 2, 1);
    run.Silence(2);
    run.Wait(kLostMs);
    run.Stop();
    REQUIRE(run.core().phase() == Phase::kFinished);
    CHECK(run.core().outcome().error().kind == ErrorKind::kPreempted);
    CHECK(run.core().outcome().error().message ==
          "stopped while servers were missing; the checkpoint is /checkpoints/step-000000000002");
  }
  SUBCASE("there is none") {
    run.Silence(2);
    run.Wait(kLostMs);
    run.Stop();
    REQUIRE(run.core().phase() == Phase::kFinished);
    CHECK(run.core().outcome().error().kind == ErrorKind::kTryLater);
  }
  CHECK_FALSE(run.ledger.live);
}

TEST_CASE("recovery: a server is lost while a stop's checkpoint is being written") {
  FakeCluster run(PatientConfig());
  run.Start();
  TrainSaveTrain(&run, 2, 2);
  run.servers_answer = false;
  run.Stop();
  run.Silence(2);
  run.Wait(kLostMs);
  CHECK(run.core().phase() == Phase::kGathering);
  run.servers_answer = true;
  SUBCASE("it comes back: all is saved") {
    run.Return(2);
    run.Wait(2000);
    CHECK(run.manifests.back().batches == 4);
  }
  SUBCASE("a spare comes: the last checkpoint is what there is") {
    run.Join(3, Role::kServer);
    run.Wait(2000);
    CHECK(run.manifests.back().batches == 2);
  }
  SUBCASE("nobody comes: the last checkpoint is what there is") {
    run.Wait(12000);
    CHECK(run.manifests.back().batches == 2);
  }
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().error().kind == ErrorKind::kPreempted);
}

TEST_CASE("recovery: a stop does not wait for a server that leaves") {
  FakeCluster run(PatientConfig());
  run.Start();
  SUBCASE("there is a checkpoint") {
    TrainSaveTrain(&run, 2, 2);
    run.servers_answer = false;
    run.Stop();
    run.Send(2, Leave{});
    REQUIRE(run.core().phase() == Phase::kFinished);
    CHECK(run.core().outcome().error().kind == ErrorKind::kPreempted);
    CHECK(run.core().outcome().error().message ==
          "stopped while servers were missing; the checkpoint is /checkpoints/step-000000000002");
  }
  SUBCASE("there is none") {
    CHECK(run.Work(11));
    run.servers_answer = false;
    run.Stop();
    run.Send(2, Leave{});
    REQUIRE(run.core().phase() == Phase::kFinished);
    CHECK(run.core().outcome().error().kind == ErrorKind::kTryLater);
    CHECK(run.core().outcome().error().message ==
          "stopped while servers were missing; nothing was saved");
  }
  CHECK_FALSE(run.ledger.live);
}

// As when all processes get SIGTERM at once: the servers ask for a checkpoint, and leave with it.
TEST_CASE("recovery: servers that stop with the run wait for its last checkpoint") {
  FakeCluster run(PatientConfig());
  run.Start();
  for (int i = 0; i < 2; ++i) CHECK(run.Work(11));
  run.servers_answer = false;
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  CHECK(run.Work(11));  // the checkpoint that is being written lacks this batch
  run.Send(1, CheckpointNow{});
  run.Stop();
  run.Send(2, CheckpointNow{});
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().error().kind == ErrorKind::kPreempted);
  REQUIRE(run.manifests.size() == 2);
  CHECK(run.manifests.back().batches == 3);
  for (const uint64_t server : {1, 2}) {
    size_t answers = 0;
    for (const Body& body : run.received["peer-" + std::to_string(server)]) {
      const auto* done = std::get_if<CheckpointDone>(&body);
      if (done == nullptr) continue;
      answers++;
      CHECK(done->name == run.manifests.back().name);
    }
    CHECK(answers == 1);
  }
}

TEST_CASE("recovery: nobody takes the place within cluster.join_timeout_s") {
  FakeCluster run(PatientConfig());
  run.Start();
  run.Silence(2);
  run.Wait(300'000);
  CHECK(run.core().phase() == Phase::kGathering);
  run.Wait(10'000);
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().error().kind == ErrorKind::kTryLater);
  CHECK(run.core().outcome().error().message ==
        "no server took the place of server-2 within 300 s (cluster.join_timeout_s); start the "
        "cluster again with --resume");
}

TEST_CASE("recovery: a server that holds slots of another plan has to begin anew") {
  FakeCluster run;
  run.Start();
  run.Join(3, Role::kServer, "", 1);  // it has no seat in it
  CHECK(std::get<ErrorReply>(run.LastTo(3)).code == ErrorCode::kFenced);
  CHECK(run.core().roster().Spares().empty());
  FakeCluster fresh;
  fresh.Join(1, Role::kServer, "", 4);
  CHECK(fresh.servers.at(1).fenced);
}

TEST_CASE("recovery: replacements without limit") {
  FakeCluster run(PatientConfig());
  run.Join(1, Role::kServer, "a");
  run.Join(2, Role::kServer, "b");
  run.Join(11, Role::kWorker);
  uint64_t last = 2;
  for (uint32_t n = 0; n < 7; ++n) {
    CHECK(run.Work(11));
    run.Silence(last);
    run.Wait(1000);
    run.Join(++last, Role::kServer, "b");
    run.Wait(2000);
    REQUIRE(run.core().plan_version() == n + 2);
  }
  CHECK(run.status().recoveries == 7);
  FinishAndCheck(&run);
}

TEST_CASE("recovery: a ledger that cannot be written ends the run, and all are told") {
  FakeCluster run;
  run.Start();
  SUBCASE("in training") {}
  SUBCASE("at the very end") {
    run.WorkAll(11);
    REQUIRE(run.core().outcome().ok());
  }
  const auto effects =
      run.core().OnLedgerFailure(Failed("ledger: no space left on device"), run.now);
  CHECK(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().error().message == "ledger: no space left on device");
  CHECK(effects.ledger.empty());
  REQUIRE(MessagesIn(effects).size() == 3);
  for (const auto& out : MessagesIn(effects)) CHECK(std::get<Shutdown>(*out.body).exit_code == 1);
}

}  // namespace
}  // namespace dslide::recovery_test
