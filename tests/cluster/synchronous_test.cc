// Synchronous training: the same weights, whoever takes part (train.staleness = 0).
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>

#include "tests/cluster/cluster.h"
#include "tests/cluster/weights.h"

namespace dslide::synchronous_test {
namespace {

// 20 steps of 3,840 samples, 60 batches each but for the last of an epoch.
constexpr int kSamples20 = 37500;
constexpr int kRunEpochs = 2;
const Arguments kSteps = {"--servers", "2",
                          "--set",     "train.batch=64",
                          "--set",     "train.staleness=0",
                          "--set",     "train.target_batch=3840",
                          "--set",     "train.epochs=2",
                          "--set",     "model.active=lsh",
                          "--set",     "cluster.wire=auto"};

// The weights after a run with `workers` workers; of four, the second may be killed during the run.
uint64_t Train(int workers, bool kill_one, const Arguments& more = {}) {
  TestRun run;
  WriteSamples(run.Path("many.txt"), kSamples20, 3);
  const auto train =
      run.Train(With(With(kSteps, more), {"--workers", std::to_string(workers), "--set",
                                          "train.data=" + run.Path("many.txt")}));
  if (kill_one) {
    REQUIRE(WaitFor([&] { return run.TrainedSamples("worker-2") > 0; }));
    const auto children = Descendants(train->pid());
    REQUIRE(children.size() == 7);
    std::vector<pid_t> by_age(children.begin(), children.end());
    std::sort(by_age.begin(), by_age.end());
    kill(by_age[4], SIGKILL);  // scheduler, two servers, worker-1, worker-2
  }
  REQUIRE(train->Wait() == 0);
  if (kill_one) CHECK(train->Output().find("worker-2 ended (signal 9)") != std::string::npos);
  CHECK(run.Summary()["samples"] == kRunEpochs * kSamples20);
  return Weights(run);
}

TEST_CASE(
    "synchronous: one, two and four workers, and four of which one is killed, give the same") {
  const uint64_t one = Train(1, false);
  CHECK(Train(2, false) == one);
  CHECK(Train(4, false) == one);
  CHECK(Train(4, true) == one);
}

TEST_CASE("synchronous: with dense layers, two workers, and four of which one is killed") {
  const Arguments dense = {"--set", "model.hidden=16,24,12"};
  const uint64_t two = Train(2, false, dense);
  CHECK(two != Train(2, false));
  CHECK(Train(4, true, dense) == two);
}

// The weights after a short run with draws by mass; its second server may leave in the midst.
uint64_t TrainOn(int servers, int executors, bool drain_one, const std::string& neurons = "learned",
                 const std::string& hidden = "32") {
  TestRun run;
  const auto train = run.Train({"--servers", std::to_string(servers),
                                "--workers", "2",
                                "--set",     "cluster.executors=" + std::to_string(executors),
                                "--set",     "cluster.wire=auto",
                                "--set",     "train.staleness=0",
                                "--set",     "train.target_batch=96",
                                "--set",     "model.active=mass",
                                "--set",     "model.negatives=60",
                                "--set",     "model.neurons=" + neurons,
                                "--set",     "model.hidden=" + hidden},
                               drain_one ? kSlowly : "");
  if (drain_one) {
    REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
    CHECK(run.Run("dslide", {"run", "drain", "server-2", "--scheduler", run.SchedulerAddress()}) ==
          0);
    CHECK(run.TrainedSamples() > 0);  // the run goes on
  }
  REQUIRE(train->Wait() == 0);
  CHECK(Contains(run.ServerLog(2), "[server.drain.done]") == drain_one);
  CHECK(run.Summary()["samples"] == 3 * kSamples);
  CHECK(run.Summary()["p_at_1"] > 0.9);
  return Weights(run);
}

TEST_CASE("synchronous: one, two and five servers, and three of which one drains, give the same") {
  const uint64_t one = TrainOn(1, 1, false);
  CHECK(TrainOn(2, 2, false) == one);
  CHECK(TrainOn(5, 1, false) == one);
  CHECK(TrainOn(3, 1, true) == one);
}

TEST_CASE("synchronous: with dense layers, servers that are more, and one that drains") {
  const uint64_t one = TrainOn(1, 1, false, "learned", "32,24");
  CHECK(TrainOn(2, 2, false, "learned", "32,24") == one);
  CHECK(TrainOn(3, 1, true, "learned", "32,24") == one);
}

TEST_CASE("synchronous: with centroids too") {
  const uint64_t one = TrainOn(1, 1, false, "centroids");
  CHECK(one != TrainOn(1, 1, false));
  CHECK(TrainOn(2, 2, false, "centroids") == one);
  CHECK(TrainOn(5, 1, false, "centroids") == one);
  CHECK(TrainOn(3, 1, true, "centroids") == one);
}

// The weights of a run whose end its held-out samples decide. `epochs`: how many it trained.
uint64_t TrainToItsEnd(TestRun* run, const Arguments& more, uint32_t* epochs) {
  const Arguments arguments = {"--set", "train.staleness=0",       "--set", "train.heldout=200",
                               "--set", "train.epochs=30",         "--set", "model.active=mass",
                               "--set", "train.learning_rate=0.3", "--set", "train.late_dropout=2",
                               "--set", "train.dropout_hidden=0.1"};
  REQUIRE(run->Train(With(arguments, more))->Wait() == 0);
  *epochs = run->Summary()["epochs"];
  return Weights(*run);
}

TEST_CASE(
    "synchronous: where held-out samples end the training, and what config.ini trains again") {
  TestRun run, others, again;
  uint32_t epochs = 0, of_others = 0;
  const uint64_t weights = TrainToItsEnd(&run, {"--servers", "1", "--workers", "1"}, &epochs);
  CHECK(epochs > 3);
  CHECK(epochs < 30);
  CHECK(TrainToItsEnd(&others, {"--servers", "3", "--workers", "2"}, &of_others) == weights);
  CHECK(of_others == epochs);
  const std::string config = ReadFile(run.run_directory() + "/config.ini");
  CHECK(Contains(config, fmt::format("\nepochs = {}\n", epochs)));
  CHECK(Contains(config, "\nschedule_epochs = 30\n"));
  CHECK(Contains(config, "\ncooldown_epochs = 2\n"));
  CHECK(Contains(config, "\nlate_dropout = 2\n"));
  REQUIRE(again.Run("dslide", {"train", "--config", run.run_directory() + "/config.ini",
                               "--run-dir", again.run_directory(), "--set",
                               "cluster.scheduler_bind=tcp://127.0.0.1:*"}) == 0);
  CHECK(Weights(again) == weights);
  for (const TestRun* each : {&run, &others, &again}) {
    REQUIRE(run.Run("dslide", {"ledger", "verify", each->run_directory()}) == 0);
  }
  REQUIRE(run.Run("dslide", {"train", "--resume", "--run-dir", run.run_directory()}) == 0);
  CHECK(Contains(run.last_output(), fmt::format("the run is finished, {} epochs trained", epochs)));
}

TEST_CASE("synchronous: a run that was stopped and resumed counts every sample") {
  TestRun run;
  const Arguments steps = {"--set", "train.staleness=0", "--set", "train.target_batch=128",
                           "--set", "train.epochs=6"};
  const auto train = run.Train(With(steps, {"--servers", "2", "--workers", "2"}), kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  train->Signal(SIGTERM);
  REQUIRE(train->Wait() == 85);
  const auto resumed = run.Train(With(steps, {"--resume", "--servers", "3", "--workers", "1"}));
  REQUIRE(resumed->Wait() == 0);
  CHECK(run.Summary()["samples"] == 6 * kSamples);
  CHECK(run.Summary()["p_at_1"] > 0.9);
  // Held gradients are in no checkpoint, so a synchronous run cannot resume as an asynchronous one.
  const auto otherwise = run.Train({"--resume"});
  CHECK(otherwise->Wait() == 2);
  INFO(otherwise->Errors());
  CHECK(otherwise->Errors().find("train.staleness is -1 but 0") != std::string::npos);
}

}  // namespace
}  // namespace dslide::synchronous_test
