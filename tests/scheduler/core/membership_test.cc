// Who may take part, and what the scheduler does about those who do not answer.
#include "scheduler/base/events.h"
#include "tests/scheduler/support/fake_cluster.h"

namespace dslide::membership_test {
namespace {

using Phase = SchedulerCore::Phase;

ErrorCode Refusal(FakeCluster* run, uint64_t member) {
  return std::get<ErrorReply>(run->LastTo(member)).code;
}

TEST_CASE("joins that do not fit are refused") {
  FakeCluster run;
  Join old;
  old.protocol = kProtocolVersion + 1;
  run.Send(11, old);
  CHECK(Refusal(&run, 11) == ErrorCode::kIncompatible);
  run.Start();
  run.Join(3, Role::kServer);  // one more than the plan needs is a spare
  CHECK(run.CountTo<JoinReply>(3) == 1);
  CHECK(run.CountTo<Plan>(3) == 0);
  CHECK(run.core().roster().Spares().size() == 1);
  run.WorkAll(11);
  run.Join(12, Role::kWorker);
  CHECK(Refusal(&run, 12) == ErrorCode::kRefused);
}

TEST_CASE("a repeated join gets the same reply and changes nothing") {
  FakeCluster run;
  run.Join(1, Role::kServer);
  run.Join(1, Role::kServer);
  CHECK(run.core().phase() == Phase::kGathering);
  CHECK(run.CountTo<JoinReply>(1) == 2);
  CHECK(run.core().roster().Count(Role::kServer) == 1);
}

TEST_CASE("a server of the plan that joins again takes nothing back") {
  FakeCluster run;
  run.Start();
  run.servers_answer = false;
  run.Join(2, Role::kServer);  // without a plan
  CHECK(run.core().roster().Find({2})->ready);
  CHECK(run.core().phase() == Phase::kTraining);
}

TEST_CASE("of very many workers that die at once some are dropped on each tick") {
  FakeCluster run;
  run.Start(100);
  const auto left = [&] { return run.core().roster().Count(Role::kWorker); };
  for (uint64_t worker = 11; worker < 111; ++worker) run.Silence(worker);
  while (left() == 100) run.Wait(1000);
  CHECK(left() == 68);
  CHECK(run.CountTo<DropBatches>(1) == 32);
  for (int tick = 0; tick < 3; ++tick) run.Tick();
  CHECK(left() == 0);
  CHECK(run.CountTo<DropBatches>(1) == 100);
}

TEST_CASE("strangers, other runs and messages that are not for the scheduler are refused") {
  FakeCluster run;
  run.Send(11, LeaseRequest{});
  CHECK(Refusal(&run, 11) == ErrorCode::kWrongRun);
  run.Start();
  run.Say({{78}, {11}, 1, 0, 1}, LeaseRequest{});
  CHECK(Refusal(&run, 11) == ErrorCode::kWrongRun);
  run.Send(11, EmbedRequest{});
  CHECK(Refusal(&run, 11) == ErrorCode::kRefused);
  CHECK(run.core().phase() == Phase::kTraining);
}

TEST_CASE("the run ends if the servers do not join in time") {
  FakeCluster run;
  run.Join(1, Role::kServer);
  run.now = 300000;
  run.Send(1, Heartbeat{});
  run.Tick();
  CHECK(run.core().phase() == Phase::kGathering);
  run.now = 300001;
  run.Tick();
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().error().kind == ErrorKind::kTryLater);
  CHECK(run.core().outcome().error().message.find("have 1 of 2 servers") == 0);
  CHECK(std::get<Shutdown>(run.LastTo(1)).exit_code == 75);
}

TEST_CASE("a server that leaves before the start can be replaced") {
  FakeCluster run;
  run.Join(1, Role::kServer);
  run.now = 30001;
  run.Tick();
  CHECK(run.core().roster().Count(Role::kServer) == 0);
  run.Join(2, Role::kServer);
  run.Join(3, Role::kServer);
  CHECK(run.core().phase() == Phase::kTraining);
}

TEST_CASE("a worker that leaves hands its leases back") {
  FakeCluster run;
  run.Start(2);
  CHECK(run.Work(11));
  run.Send(11, Leave{});
  CHECK(run.core().roster().Count(Role::kWorker) == 1);
  CHECK(run.Lease(12));
  CHECK(run.work(12).size() == 2);  // what is left of the first unit
  run.WorkAll(12);
  run.CheckAllCountedOnce();
}

TEST_CASE("a worker's life that servers were told to drop does not join again") {
  FakeCluster run;
  run.Start(2);
  run.Send(11, Leave{});
  run.Join(11, Role::kWorker);
  CHECK(Refusal(&run, 11) == ErrorCode::kFenced);
  CHECK(run.core().roster().Count(Role::kWorker) == 1);
  run.Join(13, Role::kWorker);  // its next life
  CHECK(run.core().roster().Count(Role::kWorker) == 2);
}

TEST_CASE("a server's error ends the run, a worker's does not") {
  FakeCluster run;
  run.Start();
  run.Send(11, ErrorReply{ErrorCode::kRefused, "hm"});
  CHECK(run.core().phase() == Phase::kTraining);
  run.Send(2, ErrorReply{ErrorCode::kRefused, "not enough memory"});
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().error().message == "server-2: not enough memory");
}

TEST_CASE("reports about unknown batches and other epochs do not count") {
  FakeCluster run;
  run.Start();
  CHECK(run.Lease(11));
  const auto [grant, batch] = run.work(11).front();
  for (const BatchId& id : {BatchId{0, 99, 0}, BatchId{0, 0, 3}, BatchId{1, 0, 0}, BatchId{0, 4, 1},
                            BatchId{0, 0xffffffff, 0xffffffff}}) {
    BatchDone done = FakeCluster::Report(grant, batch);
    done.batch = id;
    run.Send(11, done);
  }
  CHECK(run.status().batches == 0);
  CHECK(run.status().progress == 0.0);
}

TEST_CASE("training time stands still while an evaluation runs") {
  FakeCluster run;
  run.now = 1000;
  run.Start();
  run.now = 3000;
  CHECK(run.status().training_ms == 2000);
  while (run.core().phase() == Phase::kTraining) CHECK(run.Work(11));
  run.now = 4000;
  CHECK(run.status().training_ms == 2000);
  CHECK(run.status().progress == doctest::Approx(0.5));
  while (run.core().phase() == Phase::kEvaluating) CHECK(run.Work(11));
  run.now = 4500;
  CHECK(run.status().training_ms == 2500);
}

TEST_CASE("membership: who sends what are no messages is put out, a server for some time") {
  FakeCluster run;
  run.Start();
  run.Join(3, Role::kServer);
  const auto garble = [&](uint64_t member, int times) {
    for (int i = 0; i < times; ++i) run.Garble(member);
  };
  garble(99, 1000);  // nobody
  garble(11, 19);
  garble(3, 19);
  CHECK(run.core().roster().Find({11}) != nullptr);
  CHECK(run.core().roster().Find({3}) != nullptr);
  garble(11, 1);
  CHECK(run.core().roster().Find({11}) == nullptr);
  CHECK(run.Noticed(event::kWorkerGone, {{"worker", "worker"}}));
  garble(3, 1);
  CHECK(run.core().roster().Find({3}) == nullptr);
  CHECK(std::holds_alternative<Shutdown>(run.LastTo(3)));
  run.Join(4, Role::kServer);  // at the same address
  CHECK(run.core().roster().Find({4}) == nullptr);
  CHECK(std::get<ErrorReply>(run.LastTo(4)).code == ErrorCode::kRefused);
}

}  // namespace
}  // namespace dslide::membership_test
