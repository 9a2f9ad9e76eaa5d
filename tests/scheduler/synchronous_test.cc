// The scheduler in synchronous training: what it leases, when steps are committed, checkpoints.
#include <algorithm>

#include "common/base/random.h"
#include "common/config/step.h"
#include "tests/scheduler/fake_cluster.h"

namespace dslide {
namespace {

using Phase = SchedulerCore::Phase;

// 13 batches an epoch, each a unit, in steps of 4, 4, 4 and 1.
Config StepConfig(int32_t staleness = 0) {
  Config config = RunConfig();
  config.train.staleness = staleness;
  config.train.target_batch = 4 * config.train.batch;
  ResolveConfig(50, 10, &config);
  REQUIRE(config.train.unit_batches == 1);
  return config;
}

using Units = std::vector<uint32_t>;

// What a server has been told, in order.
std::vector<uint64_t> Commits(FakeCluster* run, uint64_t server) {
  std::vector<uint64_t> commits;
  for (const Body& body : run->received["peer-" + std::to_string(server)]) {
    const auto* commit = std::get_if<CommitSteps>(&body);
    if (commit != nullptr) commits.push_back(commit->committed);
  }
  return commits;
}

// The batches of the epoch that a worker has leased and not done.
std::vector<uint32_t> Leased(FakeCluster* run, uint64_t worker) {
  std::vector<uint32_t> units;
  for (const auto& [grant, batch] : run->work[worker]) units.push_back(grant.unit);
  return units;
}

void LeaseAll(FakeCluster* run, uint64_t worker) {
  while (run->Lease(worker)) {
  }
}

// Reports a leased batch of a unit.
void Finish(FakeCluster* run, uint64_t worker, uint32_t unit) {
  auto& work = run->work[worker];
  const auto found =
      std::find_if(work.begin(), work.end(), [&](const auto& w) { return w.first.unit == unit; });
  REQUIRE(found != work.end());
  const auto [grant, batch] = *found;
  work.erase(found);
  const uint64_t before = run->core().counted_batches();
  run->Send(worker, FakeCluster::Report(grant, batch));
  if (run->core().counted_batches() == before) return;
  for (const uint32_t id : batch.features.ids) run->samples[{grant.epoch, id}]++;
}

// Time passes, everybody is heard of.
void Wait(FakeCluster* run, int64_t ms, const std::vector<uint64_t>& alive) {
  for (const int64_t end = run->now + ms; run->now < end;) {
    run->now = std::min(end, run->now + 1000);
    for (const uint64_t member : alive) run->Send(member, Heartbeat{});
    run->Tick();
  }
}

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
  CHECK(Leased(&two, 12) == Units{6, 7});
  // Of five workers each gets a unit, as long as there are some.
  FakeCluster five(StepConfig());
  five.Start(5);
  LeaseAll(&five, 11);
  CHECK(Leased(&five, 11) == Units{0, 1, 2, 3, 4});
  for (const uint32_t worker : {12, 13, 14}) {
    LeaseAll(&five, worker);
    CHECK(Leased(&five, worker) == Units{worker - 7});
  }
  CHECK_FALSE(five.Lease(15));
}

TEST_CASE("synchronous: workers that had to wait get units of a step when it opens") {
  FakeCluster run(StepConfig());
  run.Start(3);
  LeaseAll(&run, 11);
  CHECK(Leased(&run, 11) == Units{0, 1, 2, 3, 4});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == Units{5});
  for (uint32_t n = 0; n < 3; ++n) Finish(&run, 11, n);
  CHECK(Leased(&run, 11) == Units{3, 4});
  Finish(&run, 11, 3);
  // Now units 4 to 7 are open, 8 to 11 the step behind. One each, in the order of asking.
  CHECK(Leased(&run, 11) == Units{4, 6});
  CHECK(Leased(&run, 12) == Units{5, 7});
  CHECK(Leased(&run, 13).empty());  // it did not ask
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == Units{5, 7, 8});
  LeaseAll(&run, 13);
  CHECK(Leased(&run, 13) == Units{9});
  LeaseAll(&run, 11);
  CHECK(Leased(&run, 11) == Units{4, 6, 10});
  LeaseAll(&run, 13);
  CHECK(Leased(&run, 13) == Units{9});  // 11 is left, but not for it
  // A fourth worker gets it, at once.
  run.Join(14, Role::kWorker);
  LeaseAll(&run, 14);
  CHECK(Leased(&run, 14) == Units{11});
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
  run.commits_lost = true;
  CHECK(run.Work(11));
  CHECK(run.core().counted_batches() == FakeCluster::kBatches);
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
  run.commits_lost = false;
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("synchronous: what a server has not committed it is told again") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 3; ++n) CHECK(run.Work(11));
  run.commits_lost = true;
  CHECK(run.Work(11));
  run.Send(1, StepsCommitted{1});  // server 1 heard it, server 2 did not
  run.commits_lost = false;
  Wait(&run, 11000, {1, 2, 11});
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 1, 1});
  Wait(&run, 30000, {1, 2, 11});
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 1, 1});
}

TEST_CASE("synchronous: where the run begins is told again to a server that did not hear it") {
  FakeCluster run(StepConfig());
  run.commits_lost = true;
  run.Start();
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0});
  run.commits_lost = false;
  Wait(&run, 11000, {1, 2, 11});
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 0});
  Wait(&run, 30000, {1, 2, 11});
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 0});
}

TEST_CASE("synchronous: leases of a step that is not open do not expire") {
  Config config = StepConfig();
  FakeCluster run(config);
  run.Start(2);
  for (int n = 0; n < 6; ++n) CHECK(run.Lease(11));
  Wait(&run, config.cluster.lease_timeout_ms + 2000, {1, 2, 11, 12});
  CHECK(Leased(&run, 11) == Units{0, 1, 2, 3, 4, 5});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == Units{0, 1, 2, 3, 6, 7});
  for (uint32_t n = 0; n < 4; ++n) Finish(&run, 12, n);
  CHECK(Leased(&run, 12) == Units{6, 7, 8});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == Units{6, 7, 8, 9});
  // Once its step is open it has the whole time, and no more.
  Wait(&run, config.cluster.lease_timeout_ms - 2000, {1, 2, 11, 12});
  CHECK_FALSE(run.Lease(12));
  Wait(&run, 4000, {1, 2, 11, 12});
  CHECK(Leased(&run, 12) == Units{6, 7, 8, 9, 4});  // unasked
  LeaseAll(&run, 12);                               // what it leased of that step is late as well
  CHECK(Leased(&run, 12) == Units{6, 7, 8, 9, 4, 5, 6, 7});
}

TEST_CASE("synchronous: leases of a step that a checkpoint keeps closed do not expire") {
  Config config = StepConfig();
  FakeCluster run(config);
  run.Start(2);
  for (int n = 0; n < 4; ++n) CHECK(run.Work(11));
  run.servers_answer = false;
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  for (int n = 4; n < 8; ++n) CHECK(run.Work(11));
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});  // units from 8 on wait at the servers
  for (int n = 8; n < 12; ++n) CHECK(run.Lease(11));
  Wait(&run, config.cluster.lease_timeout_ms - 2000, {1, 2, 11, 12, 21});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == Units{12});
  Wait(&run, 4000, {1, 2, 11, 12, 21});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == Units{12});
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
  Wait(&run, 7000, {1, 2, 12});  // 11 is silent
  CHECK(run.core().WorkerCount() == 1);
  CHECK(run.CountTo<DropBatches>(1) == 1);
  CHECK(Leased(&run, 12) == Units{4, 5, 1});  // though it has units that wait
  Finish(&run, 12, 1);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  CHECK(run.counted.size() == 2 * FakeCluster::kBatches);
  for (const auto& [batch, times] : run.counted) CHECK(times == 1);
}

// Checks that a manifest holds `steps` whole steps of the first epoch and nothing else, and that
// all servers stood there when they saved.
void CheckHolds(FakeCluster* run, const Manifest& manifest, uint64_t steps) {
  const uint64_t batches = std::min<uint64_t>(4 * steps, FakeCluster::kBatches);
  CAPTURE(manifest.name);
  CHECK(manifest.epoch == 0);
  CHECK(manifest.batches == batches);
  CHECK(manifest.samples == std::min<uint64_t>(4 * batches, FakeCluster::kSamples));
  REQUIRE(manifest.done.size() == batches);
  for (uint32_t n = 0; n < batches; ++n) {
    CHECK(manifest.done[n].unit == n);
    CHECK(manifest.done[n].index == 0);
  }
  for (const uint64_t server : {1, 2}) CHECK(run->saved.at({manifest.name, server}) == steps);
}

void AskForCheckpoint(FakeCluster* run) {
  run->Join(21, Role::kObserver);
  run->Send(21, CheckpointNow{});
}

TEST_CASE("synchronous: a checkpoint holds the steps that count, and nothing waits for it") {
  FakeCluster run(StepConfig());
  run.Start();
  LeaseAll(&run, 11);
  for (uint32_t n = 0; n < 6; ++n) Finish(&run, 11, n);
  AskForCheckpoint(&run);  // two of four batches of the second step are done, leases are out
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.core().counted_batches() == 6);
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
  CHECK(resumed.core().counted_batches() == 26);
  CHECK(resumed.core().counted_samples() == 100);
  CHECK(resumed.counted.size() == 22);
  CHECK(Commits(&resumed, 2) == std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("synchronous: while servers save, leases go on; commits and the epoch's end wait") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 4; ++n) CHECK(run.Work(11));
  run.servers_answer = false;
  AskForCheckpoint(&run);
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  for (int n = 4; n < 13; ++n) CHECK(run.Work(11));
  CHECK(run.core().counted_batches() == FakeCluster::kBatches);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  CHECK_FALSE(run.Lease(11));
  CHECK(run.core().phase() == Phase::kTraining);
  CHECK(run.epochs_done.empty());
  CHECK(run.manifests.empty());
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 1);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1, 4});
  CHECK(run.core().phase() == Phase::kEvaluating);
  CHECK(run.epochs_done == std::vector<uint32_t>{1});
  CHECK(std::get<LeaseGrant>(run.LastTo(11)).kind == LeaseKind::kEvaluate);  // unasked
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("synchronous: a checkpoint waits for the commits that are out, and holds back the next") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 3; ++n) CHECK(run.Work(11));
  run.commits_lost = true;
  CHECK(run.Work(11));
  AskForCheckpoint(&run);
  CHECK(run.CountTo<CheckpointRequest>(1) == 0);
  for (int n = 4; n < 8; ++n) CHECK(run.Work(11));  // leases go on
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  run.Send(1, StepsCommitted{1});
  CHECK(run.CountTo<CheckpointRequest>(1) == 0);
  run.committed = {{1, 1}, {2, 1}};
  run.Send(2, StepsCommitted{1});
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 1);
  for (const uint64_t server : {1, 2}) {
    CHECK(run.CountTo<CheckpointRequest>(server) == 1);
    CHECK(Commits(&run, server) == std::vector<uint64_t>{0, 1, 2});
    CHECK(std::get<CommitSteps>(run.LastTo(server)).committed == 2);  // behind the request
  }
  run.commits_lost = false;
  Wait(&run, 11000, {1, 2, 11});
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("synchronous: an epoch whose last commit a checkpoint held back ends after it") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 11; ++n) CHECK(run.Work(11));
  run.commits_lost = true;
  CHECK(run.Work(11));
  AskForCheckpoint(&run);
  CHECK(run.Work(11));
  run.commits_lost = false;
  run.committed = {{1, 3}, {2, 3}};
  for (const uint64_t server : {1, 2}) run.Send(server, StepsCommitted{3});
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 3);
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 1, 2, 3, 4});
  CHECK(run.core().phase() == Phase::kEvaluating);
  run.WorkAll(11);
  run.CheckAllCountedOnce();
}

TEST_CASE(
    "synchronous: what a server saves is what the manifest says, though its request was lost") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 4; ++n) CHECK(run.Work(11));
  run.checkpoints_lost = 2;
  AskForCheckpoint(&run);
  run.checkpoints_lost = 0;
  for (int n = 4; n < 8; ++n) CHECK(run.Work(11));
  CHECK(run.manifests.empty());
  Wait(&run, 11000, {1, 2, 11});  // the request is sent again
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 1);
}

TEST_CASE("synchronous: a checkpoint by the clock does not hold back leases") {
  Config config = StepConfig();
  config.checkpoint.interval_s = 10;
  config.cluster.lease_timeout_ms = 60000;
  FakeCluster run(config);
  run.Start();
  for (int n = 0; n < 5; ++n) CHECK(run.Work(11));
  run.servers_answer = false;
  Wait(&run, 11000, {1, 2, 11});
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  CHECK(run.Lease(11));
  run.servers_answer = true;
  run.Tick();
  REQUIRE(run.manifests.size() == 1);
  CheckHolds(&run, run.manifests[0], 1);
  // The next one is due when something new counts.
  Wait(&run, 11000, {1, 2, 11});
  CHECK(run.manifests.size() == 1);
  for (int n = 5; n < 8; ++n) CHECK(run.Work(11));
  Wait(&run, 11000, {1, 2, 11});
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
  REQUIRE(run->manifests.size() == 1);
  CheckHolds(run, run->manifests[0], steps);
  CHECK(run->core().outcome().error().message == "stopped after " + std::to_string(4 * steps) +
                                                     " batches; the checkpoint is /checkpoints/" +
                                                     run->manifests[0].name);
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
  CHECK(second.core().counted_batches() == 26);
  CHECK(second.core().counted_samples() == 100);
  CHECK(second.counted.size() == 22);
  for (const auto& [id, times] : second.counted) {
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

TEST_CASE("synchronous: a stop gives no more leases, and tells servers of no more steps") {
  FakeCluster run(StepConfig());
  run.Start();
  LeaseAll(&run, 11);
  for (uint32_t n = 0; n < 3; ++n) Finish(&run, 11, n);
  run.commits_lost = true;
  Finish(&run, 11, 3);
  CHECK(Leased(&run, 11) == Units{4, 5, 6, 7, 8});
  run.Stop();
  CHECK(run.core().phase() == Phase::kTraining);
  for (uint32_t n = 4; n < 8; ++n) Finish(&run, 11, n);
  CHECK_FALSE(run.Lease(11));
  CHECK(Leased(&run, 11) == Units{8});
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  run.committed = {{1, 1}, {2, 1}};
  for (const uint64_t server : {1, 2}) run.Send(server, StepsCommitted{1});
  CheckStopped(&run, 1);
  for (const uint64_t server : {1, 2}) {  // it saves, and changes nothing before it has
    CHECK(Commits(&run, server).size() <= 3);
    CHECK(run.CountTo<CheckpointRequest>(server) == 1);
  }
}

TEST_CASE("synchronous: a stop that reaches the workers too saves the steps that are complete") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 3; ++n) CHECK(run.Work(11));
  run.commits_lost = true;
  for (int n = 3; n < 5; ++n) CHECK(run.Work(11));
  run.Stop();
  run.Send(11, Leave{});  // nobody is left to bring the second step to its end
  CHECK(run.core().phase() == Phase::kTraining);
  run.commits_lost = false;
  Wait(&run, 60000, {1, 2});
  CheckStopped(&run, 1);
}

TEST_CASE("synchronous: a stop while a checkpoint is being written ends with that one") {
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
  CheckStopped(&run, 1);
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
  CHECK(run.saved.at({run.manifests[0].name, 2}) == 4);
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

// Workers that join, die, get stuck and come late, servers that lose every third commit and are
// slow now and then, and checkpoints at any time.
void RunProperty(uint64_t seed, int32_t staleness) {
  CAPTURE(seed);
  CAPTURE(staleness);
  Random random(seed);
  FakeCluster run(StepConfig(staleness), {}, false);
  run.Start();
  std::vector<uint64_t> workers = {11};
  uint64_t next_worker = 12;
  for (int turn = 0; turn < 5000 && run.core().phase() != Phase::kFinished; ++turn) {
    run.commits_lost = random.Below(3) == 0;
    run.servers_answer = random.Below(4) != 0;
    if (random.Below(20) == 0) AskForCheckpoint(&run);
    const uint64_t worker = workers[random.Below(workers.size())];
    switch (random.Below(12)) {
      case 0:
        run.Join(next_worker, Role::kWorker);
        workers.push_back(next_worker++);
        break;
      case 1:
        if (workers.size() > 1) std::erase(workers, worker);  // without a word
        break;
      case 2:
        run.work[worker].clear();  // gives its batches up
        break;
      case 3: {
        std::vector<uint64_t> alive = workers;
        alive.insert(alive.end(), {1, 2});
        Wait(&run, 4000, alive);
        break;
      }
      case 4:
      case 5:
        (void)run.Lease(worker);
        break;
      default: {
        auto& work = run.work[worker];
        if (work.empty()) break;
        const size_t pick = random.Below(work.size());
        const auto [grant, batch] = work[pick];
        work.erase(work.begin() + static_cast<ptrdiff_t>(pick));
        run.Send(worker, FakeCluster::Report(grant, batch));
      }
    }
    // What servers are told is complete, and in order.
    for (const uint64_t server : {1, 2}) {
      const std::vector<uint64_t> commits = Commits(&run, server);
      REQUIRE(std::is_sorted(commits.begin(), commits.end()));
      for (uint64_t step = 0; step < commits.back(); ++step) {
        const StepExtent extent =
            ExtentOfStep(step, run.core().config().train, FakeCluster::kSamples);
        uint64_t counted = 0;
        for (const auto& [id, times] : run.counted) {
          counted += StepOf(id, run.core().config().train, FakeCluster::kSamples) == step;
        }
        REQUIRE(counted == extent.batches);
      }
    }
  }
  REQUIRE(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().ok());
  CHECK(run.counted.size() == 2 * FakeCluster::kBatches);
  for (const auto& [batch, times] : run.counted) CHECK(times == 1);
  // Each checkpoint is of whole steps, at which all servers stood when they saved.
  for (const Manifest& manifest : run.manifests) {
    CAPTURE(manifest.name);
    const uint64_t steps = run.saved.at({manifest.name, 1});
    REQUIRE(run.saved.at({manifest.name, 2}) == steps);
    uint64_t batches = 0;
    for (uint64_t step = 0; step < steps; ++step) {
      batches += ExtentOfStep(step, run.core().config().train, FakeCluster::kSamples).batches;
    }
    REQUIRE(manifest.batches == batches);
    REQUIRE(manifest.done.size() == batches - manifest.epoch * FakeCluster::kBatches);
  }
}

TEST_CASE("synchronous: whatever happens, every batch counts once and steps commit in order") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const int32_t staleness : {0, 1, 3}) RunProperty(seed, staleness);
  }
}

}  // namespace
}  // namespace dslide
