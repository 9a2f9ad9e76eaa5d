// What a run chooses by its held-out samples. The fake workers' predictions are those of the same
// model after every epoch, so an epoch makes nothing better.
#include "tests/scheduler/support/fake_cluster.h"

namespace dslide::choosing_test {
namespace {

using Phase = SchedulerCore::Phase;

constexpr int64_t kLostMs = 8000;  // a silence that no member survives
const std::vector<std::string> kChosen = {"train.epochs=4", "train.schedule_epochs=6",
                                          "train.cooldown_epochs=2"};

Config SixEpochs() {
  Config config = RunConfig();
  config.train.epochs = 6;
  config.train.heldout = 1;
  config.train.cooldown_epochs.reset();
  config.cluster.takeover_s = 0;
  return config;
}

// The second epoch is evaluated.
void TrainToTheChoice(FakeCluster* run) {
  run->HoldOut({20});
  run->Start();
  while (run->epochs_done.size() < 2) REQUIRE(run->Work(11));
  while (run->core().phase() == Phase::kEvaluating) REQUIRE(run->Work(11));
}

void FinishAndCheck(FakeCluster* run, uint32_t epochs, uint64_t worker = 11) {
  run->WorkAll(worker);
  REQUIRE(run->core().phase() == Phase::kFinished);
  CHECK(run->core().outcome().ok());
  CHECK(run->ledger.epoch == epochs);
  CHECK(run->ledger.held_out.size() == epochs);
  CHECK(run->promise.counted.size() == size_t{epochs} * FakeCluster::kBatches);
  for (const auto& [batch, times] : run->promise.counted) CHECK(times == 1);
  run->CheckPromise();
}

TEST_CASE("choosing: training ends soon after held-out samples show no gain") {
  Config config = SixEpochs();
  SUBCASE("asynchronous") {}
  SUBCASE("synchronous") { config.train.staleness = 0; }
  FakeCluster run(config);
  TrainToTheChoice(&run);
  run.Tick();
  CHECK(run.PlanOf(1).settings == kChosen);
  CHECK(run.PlanOf(11).settings == kChosen);
  CHECK(run.Noticed("training ends after 4 of 6 epochs"));
  CHECK(run.core().run().config.train.cooldown_epochs == 2);
  FinishAndCheck(&run, 4);
  CHECK(run.core().run().base.train.epochs == 6);
  const Result<Config> saved = ParseConfig(run.manifests.back().config, "a manifest");
  REQUIRE(saved.ok());
  CHECK(saved->train.epochs == 4);
}

TEST_CASE("choosing: nothing where the schedule is given") {
  Config config = SixEpochs();
  SUBCASE("no cooldown") { config.train.cooldown_epochs = 0; }
  SUBCASE("a cooldown of some length") { config.train.cooldown_epochs = 3; }
  SUBCASE("a rate that stays") { config.train.decay = Decay::kNone; }
  FakeCluster run(config);
  TrainToTheChoice(&run);
  FinishAndCheck(&run, 6);
  CHECK(run.core().plan().settings.empty());
}

TEST_CASE("choosing: nothing in the last epochs, which are a cooldown's") {
  Config config = SixEpochs();
  config.train.epochs = 4;
  FakeCluster run(config);
  TrainToTheChoice(&run);
  FinishAndCheck(&run, 4);
  CHECK(run.core().plan().settings.empty());
}

TEST_CASE("choosing: a scheduler that dies finds in the ledger what was chosen") {
  FakeCluster run(SixEpochs());
  TrainToTheChoice(&run);
  SUBCASE("before a plan says it") {}
  SUBCASE("afterwards") {
    run.Tick();
    for (int i = 0; i < 5; ++i) REQUIRE(run.Work(11));
  }
  run.Restart();
  run.Join(12, Role::kWorker);
  FinishAndCheck(&run, 4, 12);
  CHECK(run.core().plan().settings == kChosen);
}

TEST_CASE("choosing: going back to a checkpoint takes no choice back") {
  FakeCluster run(SixEpochs());
  TrainToTheChoice(&run);
  run.Tick();
  for (int i = 0; i < 5; ++i) REQUIRE(run.Work(11));
  run.Silence(2);
  run.Wait(kLostMs);
  run.Join(3, Role::kServer);
  CHECK(run.PlanOf(3).settings == kChosen);
  FinishAndCheck(&run, 4);
}

}  // namespace
}  // namespace dslide::choosing_test
