// Settings that a run chooses from its held-out samples. The fake workers predict the same after
// every epoch, so no epoch improves the model.
#include "scheduler/core/setting_choice.h"

#include <doctest/doctest.h>

#include "common/config/limits.h"
#include "scheduler/base/events.h"
#include "tests/scheduler/support/fake_cluster.h"
#include "tests/support/results.h"

namespace dslide::setting_choice_test {
namespace {

using Phase = SchedulerCore::Phase;

constexpr int64_t kLostMs = 8000;  // a silence that no member survives
const std::vector<std::string> kChosen = {"train.epochs=5", "train.schedule_epochs=6",
                                          "train.cooldown_epochs=2"};

const std::vector<std::string> kKeys = {"train.dropout_hidden"};

Config SixEpochs() {
  Config config = RunConfig();
  config.train.epochs = 6;
  config.train.heldout = 1;
  config.train.cooldown_epochs.reset();
  config.cluster.takeover_s = 0;
  return config;
}

// The third epoch is evaluated, at the middle of the schedule.
void TrainToTheChoice(FakeCluster* run) {
  run->HoldOut({20});
  run->Start();
  while (run->epochs_done.size() < 3) REQUIRE(run->Work(11));
  while (run->core().phase() == Phase::kEvaluating) REQUIRE(run->Work(11));
}

// False: the scheduler has died.
bool TrainToTheEnd(FakeCluster* run, uint64_t worker) {
  for (int idle = 0; run->core().phase() != Phase::kFinished;) {
    if (run->died) return false;
    if (run->Work(worker)) {
      idle = 0;
    } else {
      REQUIRE(++idle < 100);
      run->Tick();
      run->Wait(100);
    }
  }
  return !run->died;
}

void FinishAndCheck(FakeCluster* run, uint32_t epochs, uint64_t worker = 11) {
  REQUIRE(TrainToTheEnd(run, worker));
  REQUIRE(run->core().phase() == Phase::kFinished);
  CHECK(run->core().outcome().ok());
  CHECK(run->ledger.epoch == epochs);
  CHECK(run->ledger.held_out.size() == epochs);
  CHECK(run->promise.counted.size() == size_t{epochs} * FakeCluster::kBatches);
  for (const auto& [batch, times] : run->promise.counted) CHECK(times == 1);
  run->CheckPromise();
}

TEST_CASE("setting choice: dropout is open unless the user gave it") {
  Config asked;
  CHECK(OpenKeys(asked) == std::vector<std::string>{"train.dropout_hidden"});
  asked.train.dropout_hidden = 0.0f;
  CHECK(OpenKeys(asked).empty());
}

TEST_CASE("setting choice: training ends soon after held-out samples show no gain") {
  Config config = SixEpochs();
  SUBCASE("asynchronous") {}
  SUBCASE("synchronous") { config.train.staleness = 0; }
  FakeCluster run(config);
  TrainToTheChoice(&run);
  run.Tick();
  CHECK(run.PlanOf(1).settings == kChosen);
  CHECK(run.PlanOf(11).settings == kChosen);
  CHECK(run.Noticed(event::kSettingsChosen));
  CHECK(run.core().run().config.train.cooldown_epochs == 2);
  FinishAndCheck(&run, 5);
  CHECK(run.core().run().base.train.epochs == 6);
  const Config saved = Ok(ParseConfig(run.manifests.back().config, "a manifest"));
  CHECK(saved.train.epochs == 5);
}

TEST_CASE("setting choice: nothing where the schedule is given") {
  Config config = SixEpochs();
  SUBCASE("no cooldown") { config.train.cooldown_epochs = 0; }
  SUBCASE("a cooldown of some length") { config.train.cooldown_epochs = 3; }
  SUBCASE("a rate that stays") { config.train.decay = Decay::kNone; }
  FakeCluster run(config);
  TrainToTheChoice(&run);
  FinishAndCheck(&run, 6);
  CHECK(run.core().plan().settings.empty());
}

TEST_CASE("setting choice: nothing in the last epochs, which are a cooldown's") {
  Config config = SixEpochs();
  config.train.epochs = 5;
  FakeCluster run(config);
  TrainToTheChoice(&run);
  FinishAndCheck(&run, 5);
  CHECK(run.core().plan().settings.empty());
}

TEST_CASE("setting choice: a scheduler that dies finds in the ledger what was chosen") {
  FakeCluster run(SixEpochs());
  TrainToTheChoice(&run);
  SUBCASE("before a plan says it") {}
  SUBCASE("afterwards") {
    run.Tick();
    for (int i = 0; i < 5; ++i) REQUIRE(run.Work(11));
  }
  run.Restart();
  run.Join(12, Role::kWorker);
  FinishAndCheck(&run, 5, 12);
  CHECK(run.core().plan().settings == kChosen);
}

TEST_CASE("setting choice: going back to a checkpoint takes no choice back") {
  FakeCluster run(SixEpochs());
  TrainToTheChoice(&run);
  run.Tick();
  for (int i = 0; i < 5; ++i) REQUIRE(run.Work(11));
  run.Silence(2);
  run.Wait(kLostMs);
  run.Join(3, Role::kServer);
  CHECK(run.PlanOf(3).settings == kChosen);
  FinishAndCheck(&run, 5);
}

TEST_CASE("setting choice: dropout rises where epochs gain little, then training ends") {
  Config config = SixEpochs();
  config.train.epochs = 9;
  SUBCASE("asynchronous") {}
  SUBCASE("synchronous") { config.train.staleness = 0; }
  FakeCluster run(config);
  run.LeaveOpen(kKeys);
  TrainToTheChoice(&run);
  run.Tick();
  CHECK(run.PlanOf(1).settings == std::vector<std::string>{"train.late_dropout=3"});
  CHECK(run.Noticed(event::kSettingsChosen));
  FinishAndCheck(&run, 7);
  CHECK(run.core().plan().settings ==
        std::vector<std::string>{"train.late_dropout=3", "train.epochs=7",
                                 "train.schedule_epochs=9", "train.cooldown_epochs=2"});
}

TEST_CASE("setting choice: dropout stays where it may not rise") {
  Config config = SixEpochs();
  config.train.epochs = 9;
  config.train.cooldown_epochs = 0;
  std::vector<std::string> open = kKeys;
  SUBCASE("the user has set it") { open = {"train.learning_rate"}; }
  SUBCASE("it is high") { config.train.dropout_hidden = kHighDropout; }
  SUBCASE("there is none") { config.train.dropout_hidden = 0.0f; }
  SUBCASE("the user says when it rises") { config.train.late_dropout = 8; }
  SUBCASE("the third epoch is in the second half") { config.train.epochs = 5; }
  const uint32_t epochs = config.train.epochs;
  FakeCluster run(config);
  run.LeaveOpen(open);
  TrainToTheChoice(&run);
  FinishAndCheck(&run, epochs);
  CHECK(run.core().plan().settings.empty());
}

TEST_CASE("setting choice: more negatives after an epoch in which their error was high") {
  Config config = SixEpochs();
  config.train.cooldown_epochs = 0;
  config.train.late_negatives.reset();
  std::vector<std::string> chosen = {"train.late_negatives=1"};
  double error = 0.2;
  SUBCASE("high") {}
  SUBCASE("low") {
    error = 0.05;
    chosen.clear();
  }
  SUBCASE("high where the user has said when") {
    config.train.late_negatives = 5;
    chosen.clear();
  }
  FakeCluster run(config);
  run.tail_error = error;
  run.HoldOut({20});
  run.Start();
  FinishAndCheck(&run, 6);
  CHECK(run.core().plan().settings == chosen);
  CHECK(run.Noticed(event::kSettingsChosen) == !chosen.empty());
}

TEST_CASE("setting choice: the error of an epoch is not that of those before") {
  Config config = SixEpochs();
  config.train.cooldown_epochs = 0;
  config.train.late_negatives.reset();
  FakeCluster run(config);
  run.tail_error = 0.01;
  run.HoldOut({20});
  run.Start();
  while (run.epochs_done.size() < 1) REQUIRE(run.Work(11));
  run.tail_error = 0.1;  // 0.055 in the mean of both epochs
  while (run.epochs_done.size() < 2) REQUIRE(run.Work(11));
  FinishAndCheck(&run, 6);
  CHECK(run.core().plan().settings == std::vector<std::string>{"train.late_negatives=2"});
}

TEST_CASE("setting choice: training does not end where dropout rises") {
  Config config = SixEpochs();
  config.train.late_dropout = 3;  // as config.ini of a run that chose it
  FakeCluster run(config);
  TrainToTheChoice(&run);
  FinishAndCheck(&run, 6);
  CHECK(run.core().plan().settings.empty());
}

}  // namespace
}  // namespace dslide::setting_choice_test
