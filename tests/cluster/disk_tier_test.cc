// A server whose memory is too small for the model: the rest is on the disk (cluster.disk_tier).
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>

#include "common/checkpoint/manifest.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/weights.h"

namespace dslide::disk_tier_test {
namespace {

// 500 rows of 6 KB with their moments.
const Arguments kLarge = {"--servers", "1",
                          "--workers", "2",
                          "--set",     "cluster.executors=1",
                          "--set",     "model.hidden=512",
                          "--set",     "model.precision=fp32",
                          "--set",     "train.optimizer=adam",
                          "--set",     "train.learning_rate=0.01",
                          "--set",     "train.staleness=0",
                          "--set",     "train.target_batch=96",
                          "--set",     "model.active=mass",
                          "--set",     "model.negatives=40"};
const Arguments kTier = {"--set", "cluster.memory_mb=2", "--set", "cluster.disk_tier=/tmp"};

uint64_t WeightsInMemory() {
  TestRun run;
  REQUIRE(run.Train(kLarge)->Wait() == 0);
  CHECK_FALSE(Contains(run.ServerLog(1), "[tier.use]"));
  CHECK(run.Summary()["p_at_1"] > 0.9);
  return Weights(run);
}

TEST_CASE("disk tier: the weights are those of a run in memory, also after a server has died") {
  const uint64_t expected = WeightsInMemory();
  {
    TestRun run;
    const auto train = run.Train(With(kLarge, kTier), kSlowly);
    REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
    REQUIRE(WaitFor([&] {
      const nlohmann::json status = run.Status();
      return std::ranges::any_of(status["members"], [](const nlohmann::json& member) {
        return member.value("tier_misses", 0) > 0 && member.value("tier_hits", 2.0) < 1;
      });
    }));
    REQUIRE(train->Wait() == 0);
    CHECK(Contains(run.ServerLog(1), "[tier.use]"));
    CHECK(Contains(train->Output(), "server-1 has more rows than room in memory"));
    CHECK(run.Summary()["p_at_1"] > 0.9);
    CHECK(Weights(run) == expected);
  }
  TestRun run;
  const auto train =
      run.Train(With(With(kLarge, kTier), {"--set", "checkpoint.interval_s=1"}), kSlowly);
  REQUIRE(WaitFor([&] { return FindCheckpoint(run.run_directory() + "/checkpoint").ok(); }));
  const auto children = Descendants(train->pid());
  REQUIRE(children.size() == 4);
  std::vector<pid_t> by_age(children.begin(), children.end());
  std::sort(by_age.begin(), by_age.end());
  kill(by_age[1], SIGKILL);  // the scheduler is the oldest
  REQUIRE(train->Wait() == 0);
  CHECK(Contains(train->Output(), "server-1 ended (signal 9)"));
  CHECK(Weights(run) == expected);
}

TEST_CASE("disk tier: a full disk ends the server with the directory and the mend") {
  TestRun run;
  const auto train = run.Train(With(kLarge, kTier), "server.tier-write=fail@20");
  CHECK(train->Wait() != 0);
  CHECK(Contains(run.ServerLog(1),
                 "the disk tier's file in /tmp (cluster.disk_tier): rows cannot be written: No "
                 "space left on device; make room there or name another directory"));
}

TEST_CASE("disk tier: what it cannot do is refused") {
  TestRun run;
  const auto refused = [&](const Arguments& more, const std::string& why) {
    Arguments arguments = {"train", "--config", run.config(), "--run-dir", run.run_directory()};
    CHECK(run.Run("dslide", With(With(With(arguments, kLarge), kTier), more)) != 0);
    CHECK_MESSAGE(Contains(run.last_errors(), why), run.last_errors());
  };
  refused({"--set", "cluster.disk_tier=off"}, "too little memory: the model needs ");
  refused({"--set", "cluster.disk_tier=/absent"},
          "cluster.disk_tier = /absent: no file can be made there: No such file or directory");
}

}  // namespace
}  // namespace dslide::disk_tier_test
