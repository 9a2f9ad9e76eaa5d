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
  const uint64_t before = run->core().stats().batches;
  run->Send(worker, FakeCluster::Report(grant, batch));
  if (run->core().stats().batches == before) return;
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

TEST_CASE("synchronous: of the step behind the open ones a worker gets one unit") {
  FakeCluster run(StepConfig());
  run.Start(3);
  LeaseAll(&run, 11);
  CHECK(Leased(&run, 11) == std::vector<uint32_t>{0, 1, 2, 3, 4});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == std::vector<uint32_t>{5});
  for (uint32_t n = 0; n < 4; ++n) Finish(&run, 11, n);
  // Now units 4 to 7 are open, 8 to 11 the step behind.
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == std::vector<uint32_t>{5, 6, 7, 8});
  LeaseAll(&run, 13);
  CHECK(Leased(&run, 13) == std::vector<uint32_t>{9});
  LeaseAll(&run, 11);
  CHECK(Leased(&run, 11) == std::vector<uint32_t>{4, 10});
  LeaseAll(&run, 13);
  CHECK(Leased(&run, 13) == std::vector<uint32_t>{9});  // 11 is left, but not for it
}

TEST_CASE("synchronous: with staleness so many steps more are open, commits stay in order") {
  FakeCluster run(StepConfig(1));
  run.Start();
  LeaseAll(&run, 11);
  CHECK(Leased(&run, 11) == std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  for (const uint32_t n : {4, 5, 6, 7, 0, 1, 2}) Finish(&run, 11, n);
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0});
  Finish(&run, 11, 3);
  CHECK(Commits(&run, 2) == std::vector<uint64_t>{0, 2});
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
  CHECK(run.core().stats().batches == FakeCluster::kBatches);
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
  LeaseAll(&run, 11);
  REQUIRE(Leased(&run, 11) == std::vector<uint32_t>{0, 1, 2, 3, 4});
  Wait(&run, config.cluster.lease_timeout_ms + 2000, {1, 2, 11, 12});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == std::vector<uint32_t>{0, 1, 2, 3, 5});
  for (uint32_t n = 0; n < 4; ++n) Finish(&run, 12, n);
  // Once its step is open it has the whole time, and no more.
  Wait(&run, config.cluster.lease_timeout_ms - 2000, {1, 2, 11, 12});
  LeaseAll(&run, 12);
  CHECK(Leased(&run, 12) == std::vector<uint32_t>{5, 6, 7, 8});
  Wait(&run, 4000, {1, 2, 11, 12});
  LeaseAll(&run, 12);  // what it leased when the step opened is late as well, unit 5
  CHECK(Leased(&run, 12) == std::vector<uint32_t>{5, 6, 7, 8, 4, 5});
}

TEST_CASE("synchronous: the batches of a worker that dies are leased again, and the step commits") {
  FakeCluster run(StepConfig());
  run.Start(2);
  CHECK(run.Lease(11));
  CHECK(run.Lease(11));
  Finish(&run, 11, 0);
  CHECK(run.Lease(12));  // units 2 and 3, and one of the next step
  CHECK(run.Lease(12));
  CHECK(run.Lease(12));
  CHECK_FALSE(run.Lease(12));
  Finish(&run, 12, 2);
  Finish(&run, 12, 3);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0});
  Wait(&run, 7000, {1, 2, 12});  // 11 is silent
  CHECK(run.core().WorkerCount() == 1);
  CHECK(run.CountTo<DropBatches>(1) == 1);
  CHECK(run.Lease(12));  // though it has a unit that waits
  CHECK(Leased(&run, 12) == std::vector<uint32_t>{4, 1});
  Finish(&run, 12, 1);
  CHECK(Commits(&run, 1) == std::vector<uint64_t>{0, 1});
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  CHECK(run.counted.size() == 2 * FakeCluster::kBatches);
  for (const auto& [batch, times] : run.counted) CHECK(times == 1);
}

TEST_CASE("synchronous: a checkpoint is taken at a boundary, after the steps that have begun") {
  FakeCluster run(StepConfig());
  run.Start();
  CHECK(run.Work(11));
  LeaseAll(&run, 11);  // 1, 2, 3 and 4: the second step has begun
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  for (const uint32_t n : {1, 2, 3, 4}) Finish(&run, 11, n);
  CHECK(run.manifests.empty());  // no lease is out, but one of four batches of the step is done
  for (uint32_t n = 5; n < 8; ++n) {
    CHECK(run.manifests.empty());
    LeaseAll(&run, 11);
    CHECK(run.work[11].front().first.unit == n);
    for (const auto& [grant, batch] : run.work[11]) CHECK(grant.unit < 8);
    Finish(&run, 11, n);
  }
  REQUIRE(run.manifests.size() == 1);
  const Manifest manifest = run.manifests[0];
  CHECK(manifest.batches == 8);
  CHECK(manifest.done.size() == 8);
  CHECK(run.CountTo<CheckpointDone>(21) == 1);
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();

  // The resumed run begins with its third step.
  FakeCluster resumed(StepConfig(), manifest);
  resumed.Start();
  CHECK(Commits(&resumed, 1) == std::vector<uint64_t>{2});
  LeaseAll(&resumed, 11);
  CHECK(Leased(&resumed, 11) == std::vector<uint32_t>{8, 9, 10, 11, 12});
  resumed.WorkAll(11);
  CHECK(resumed.core().outcome().ok());
  CHECK(resumed.core().stats().batches == 26);
  CHECK(resumed.counted.size() == 18);
  CHECK(Commits(&resumed, 2) == std::vector<uint64_t>{2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("synchronous: a checkpoint waits until the servers have committed what it is to hold") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 3; ++n) CHECK(run.Work(11));
  run.commits_lost = true;
  CHECK(run.Work(11));
  run.Join(21, Role::kObserver);
  run.Send(21, CheckpointNow{});
  CHECK(run.CountTo<CheckpointRequest>(1) == 0);
  CHECK_FALSE(run.Lease(11));
  run.Send(1, StepsCommitted{1});
  CHECK(run.CountTo<CheckpointRequest>(1) == 0);
  run.Send(2, StepsCommitted{1});
  CHECK(run.CountTo<CheckpointRequest>(1) == 1);
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].batches == 4);
}

TEST_CASE(
    "synchronous: a stop finishes the steps that have begun, and a resume goes on from there") {
  FakeCluster first(StepConfig(1));
  first.Start(2);
  CHECK(first.Lease(11));
  CHECK(first.Work(12));
  first.Stop();
  CHECK(first.core().phase() == Phase::kTraining);
  while (first.core().phase() == Phase::kTraining) {
    REQUIRE((first.Work(11) || first.Work(12)));
  }
  REQUIRE(first.manifests.size() == 1);
  CHECK(first.manifests[0].batches == 4);
  FakeCluster second(StepConfig(1), first.manifests[0]);
  second.counted = first.counted;
  second.samples = first.samples;
  second.Start();
  CHECK(Commits(&second, 1) == std::vector<uint64_t>{1});
  second.WorkAll(11);
  CHECK(second.core().outcome().ok());
  second.CheckAllCountedOnce();

  // At the end of all epochs servers are told too.
  FakeCluster third(StepConfig(), second.manifests.at(0));
  third.Start();
  CHECK(Commits(&third, 1) == std::vector<uint64_t>{8});
  third.WorkAll(11);
  CHECK(third.core().outcome().ok());
}

TEST_CASE("synchronous: a stop that reaches the workers too saves the steps that are complete") {
  FakeCluster run(StepConfig());
  run.Start();
  for (int n = 0; n < 5; ++n) CHECK(run.Work(11));
  run.Stop();
  run.Send(11, Leave{});  // nobody is left to bring the second step to its end
  Wait(&run, 60000, {1, 2});
  REQUIRE(run.core().phase() == Phase::kFinished);
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].batches == 4);
  CHECK(run.manifests[0].done.size() == 4);
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

// Workers that join, die, get stuck and come late, and servers that lose every third commit.
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
}

TEST_CASE("synchronous: whatever happens, every batch counts once and steps commit in order") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const int32_t staleness : {0, 1, 3}) RunProperty(seed, staleness);
  }
}

}  // namespace
}  // namespace dslide
