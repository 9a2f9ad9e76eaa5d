#include "tools/dslide/runs/found_run.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "scheduler/ledger/ledger.h"
#include "tests/support/temp_directory.h"

namespace dslide::found_run_test {
namespace {

namespace fs = std::filesystem;

struct Runs {
  std::string Path(const std::string& name) const { return directory.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
  }
  void Checkpoint(const std::string& run, uint64_t batches, bool complete) const {
    const std::string name = run + "/checkpoint/" + CheckpointName(batches);
    Write(name + "/shard-1-0/data", std::string(1000, 'x'));
    Manifest manifest;
    manifest.name = CheckpointName(batches);
    if (complete) REQUIRE(WriteManifest(Path(name), manifest).ok());
  }
  FoundRun::Kind KindOf(const std::string& name) const {
    const auto run = FindRun(Path(name));
    REQUIRE(run);
    return run->kind;
  }

  TempDirectory directory;
};

TEST_CASE_FIXTURE(Runs, "runs: what state each is in") {
  fs::create_directories(Path("no run"));
  Write("b/config.ini", "");
  Write("a/config.ini", "");
  Write("a/metrics.jsonl",
        "cut\n{\"event\":\"progress\",\"progress\":0.25}\n"
        "{\"event\":\"evaluation\",\"p_at_1\":0.5}\n{\"event\":\"prog");
  const auto found = RunsIn(directory.path());
  REQUIRE(found.ok());
  REQUIRE(found->size() == 2);
  CHECK(found->front().name == "a");
  CHECK(found->front().progress == 0.25);
  CHECK(found->front().p_at_1 == 0.5);
  CHECK(found->front().kind == FoundRun::Kind::kEmpty);
  CHECK(RunsIn(Path("a"))->size() == 1);
  CHECK_FALSE(RunsIn(Path("nowhere")).ok());
  CHECK_FALSE(FindRun(Path("no run")));

  LedgerState state;
  { REQUIRE(Ledger::Open(Path("a") + "/ledger", &state).ok()); }
  CHECK(KindOf("a") == FoundRun::Kind::kEnded);
  Write("a/totals.json", "{}");
  Write("a/summary.json", R"({"outcome": "stopped after 3 batches"})");
  CHECK(KindOf("a") == FoundRun::Kind::kStopped);
  CHECK(FindRun(Path("a"))->outcome == "stopped after 3 batches");
  Write("a/summary.json", R"({"outcome": "finished", "p_at_1": 0.75})");
  CHECK(KindOf("a") == FoundRun::Kind::kFinished);
  CHECK(FindRun(Path("a"))->p_at_1 == 0.75);
  // A later life has begun, and was killed.
  fs::last_write_time(Path("a/totals.json"),
                      fs::last_write_time(Path("a/summary.json")) + std::chrono::seconds(1));
  CHECK(KindOf("a") == FoundRun::Kind::kEnded);
}

TEST_CASE_FIXTURE(Runs, "runs: only what a finished run does not need can go") {
  Write("a/config.ini", "");
  Checkpoint("a", 1, true);
  Checkpoint("a", 2, false);
  Checkpoint("a", 3, true);
  Checkpoint("a", 4, false);
  Write("a/checkpoint/orphan-3-12/shard-3-0/data", "x");
  Write("a/checkpoint/store-server-1-00000000000000ff/data", "x");
  Write("a/checkpoint/preprocessor-00000000000000ff", "x");
  Write("a/summary.json", R"({"outcome": "stopped"})");
  CHECK(RemovableOf(*FindRun(Path("a"))).empty());
  Write("a/summary.json", R"({"outcome": "finished"})");
  const auto removable = RemovableOf(*FindRun(Path("a")));
  const std::string in = Path("a") + "/checkpoint/";
  CHECK(removable == std::vector<std::string>{in + "orphan-3-12", in + CheckpointName(1),
                                              in + CheckpointName(2), in + CheckpointName(4),
                                              in + "store-server-1-00000000000000ff"});
}

}  // namespace
}  // namespace dslide::found_run_test
