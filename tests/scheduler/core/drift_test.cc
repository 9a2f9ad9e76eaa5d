// The training loss rises: servers and what counts go back to a checkpoint from before.
#include <doctest/doctest.h>

#include "scheduler/base/events.h"
#include "tests/scheduler/support/fake_cluster.h"

namespace dslide::drift_test {
namespace {

constexpr double kGood = 0.5, kBad = 4.0;  // ten labels: log 2.3

Config LongConfig() {
  Config config = RunConfig();
  config.train.epochs = 40;
  config.train.evaluate_samples = 0;
  return config;
}

// A worker's next batches, with a loss; evaluations on the way are done, too.
void Train(FakeCluster* run, double loss, int batches, uint64_t worker = 11) {
  for (int i = 0; i < batches; ++i) {
    REQUIRE((!run->work(worker).empty() || run->Lease(worker)));
    const auto [grant, batch] = run->work(worker).front();
    run->work(worker).pop_front();
    BatchDone done = FakeCluster::Report(grant, batch);
    done.loss_sum = loss * done.samples;
    run->Send(worker, done);
  }
}

void Save(FakeCluster* run) {
  run->Join(99, Role::kObserver);
  run->Send(99, CheckpointNow{});
}

TEST_CASE("drift: all go back to the newest checkpoint, and the decision names who trained") {
  FakeCluster run(LongConfig(), {}, false);
  run.Start();
  Train(&run, kGood, 30);
  Save(&run);
  REQUIRE(run.manifests.size() == 1);
  const uint64_t saved = run.status().batches;
  Train(&run, kBad, 10 + DriftAlarm::kLeastWindow);  // a window is half full
  CHECK(run.Noticed(event::kLossRose, {{"loss", 4.0}, {"lowest", 0.5}}));
  CHECK(run.status().recoveries == 1);
  CHECK(run.status().batches == saved);
  Train(&run, kGood, 1);
  CHECK(run.status().batches == saved + 1);
  CHECK(run.core().phase() == RunPhase::kTraining);
}

TEST_CASE("drift: a checkpoint is complete once batches have shown that it is good") {
  Config config = LongConfig();
  config.checkpoint.interval_s = 1;
  FakeCluster run(config, {}, false);
  run.Start();
  Train(&run, kGood, 30);
  run.Wait(1000);
  const size_t before = run.manifests.size();
  Train(&run, kGood, 1);
  CHECK(run.manifests.size() == before);  // begun, and not trusted yet
  Train(&run, kGood, 10);
  CHECK(run.manifests.size() == before + 1);
  // What is trained with a rising loss is not saved.
  run.Wait(1000);
  Train(&run, kBad, 15);
  CHECK(run.manifests.size() == before + 1);
}

TEST_CASE("drift: the run ends if going back does not help") {
  FakeCluster run(LongConfig(), {}, false);
  run.Start();
  Train(&run, kGood, 30);
  Save(&run);
  while (run.core().phase() == RunPhase::kTraining) Train(&run, kBad, 1);
  REQUIRE_FALSE(run.core().outcome().ok());
  const std::string& message = run.core().outcome().error().message;
  CAPTURE(message);
  CHECK(message.find("going back to the checkpoint has not helped. Use --resume with a lower "
                     "train.learning_rate; if the data is at fault") != std::string::npos);
  CHECK(message.find("key") == std::string::npos);
  CHECK(run.status().recoveries == 3);
}

TEST_CASE("drift: keys are spoken of where somebody has one that is not the run's own") {
  const auto message_with = [](const std::string& key) {
    FakeCluster run(LongConfig(), {}, false);
    run.keyed = true;
    run.Restart();
    run.Start();
    run.core().NameKey({11}, key);
    Train(&run, kGood, 30);
    Save(&run);
    while (run.core().phase() == RunPhase::kTraining) Train(&run, kBad, 1);
    return run.core().outcome().error().message;
  };
  for (const std::string own : {"worker", "worker-1", "worker-12"}) {
    CHECK(message_with(own).find("key") == std::string::npos);
  }
  for (const std::string other : {"alice", "worker-", "worker-x", "workers"}) {
    CAPTURE(other);
    CHECK(message_with(other).find("or without one of the contributors (of fewer than three nobody "
                                   "can tell which one sends wrong gradients); if the data") !=
          std::string::npos);
  }
}

TEST_CASE("drift: of three contributors the one with a higher loss gets few batches") {
  constexpr uint64_t kLiar = 13;
  FakeCluster run(LongConfig(), {}, false);
  run.Start();
  run.Join(12, Role::kWorker);
  run.Join(kLiar, Role::kWorker);
  const auto found = [&] { return run.Noticed(event::kWorkerSlowed); };
  for (int i = 0; i < 180 && !found(); ++i) {
    const uint64_t worker = 11 + static_cast<uint64_t>(i) % 3;
    Train(&run, worker == kLiar ? 1.5 * kGood : kGood, 1, worker);
  }
  CHECK(run.Noticed(event::kWorkerSlowed, {{"loss", 0.75}, {"others_loss", 0.5}}));
  run.work(kLiar).clear();  // what it has leased before
  REQUIRE(run.Lease(kLiar));
  CHECK(run.work(kLiar).size() == 1);
  Train(&run, kGood, 1, kLiar);
  CHECK_FALSE(run.Lease(kLiar));
  CHECK(run.Lease(11));
  run.Wait(Generation::kSlowedLeaseMs);
  CHECK(run.work(kLiar).size() == 1);                   // the request that had to wait
  CHECK(run.core().roster().Find({kLiar}) != nullptr);  // nobody is excluded by losses alone
}

}  // namespace
}  // namespace dslide::drift_test
