// A run that is stopped or killed saves what it can and leaves no process behind.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "common/checkpoint/manifest.h"
#include "tests/cluster/cluster.h"

namespace dslide {
namespace {

constexpr int kGoneMs = 30000;

bool AllGone(const std::vector<pid_t>& processes) {
  return std::all_of(processes.begin(), processes.end(), IsGone);
}

TEST_CASE("Ctrl-C writes a checkpoint, which the run continues from") {
  TestRun run;
  const std::string epochs = "train.epochs=150";
  const auto train = run.Train({"--servers", "2", "--workers", "2", "--set", epochs});
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  const auto children = Descendants(train->pid());
  CHECK(children.size() == 5);
  train->Signal(SIGINT);
  REQUIRE(train->Wait() == 85);
  CHECK(AllGone(children));

  const auto checkpoint = FindCheckpoint(run.run_directory() + "/checkpoint");
  REQUIRE(checkpoint.ok());
  const auto manifest = ReadManifest(*checkpoint);
  REQUIRE(manifest.ok());
  CHECK(manifest->samples > 0);
  CHECK(manifest->samples < 150 * kSamples);

  const auto resumed = run.Train({"--resume", "--servers", "2", "--workers", "2", "--set", epochs});
  REQUIRE(resumed->Wait() == 0);
  CHECK(run.Summary()["samples"] == 150 * kSamples);
}

TEST_CASE("no process outlives a launcher that is killed") {
  TestRun run;
  const auto train = run.Train({"--servers", "2", "--workers", "2", "--set", "train.epochs=1000"});
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  const auto children = Descendants(train->pid());
  REQUIRE(children.size() == 5);
  train->Signal(SIGKILL);
  CHECK(train->Wait() == -SIGKILL);
  CHECK(WaitFor([&] { return AllGone(children); }, kGoneMs));
}

}  // namespace
}  // namespace dslide
