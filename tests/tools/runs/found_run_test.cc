#include "tools/dslide/runs/found_run.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/checkpoint/layout.h"
#include "common/checkpoint/manifest.h"
#include "scheduler/ledger/ledger.h"
#include "tests/support/results.h"
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
  const auto found = Ok(RunsIn(directory.path()));
  REQUIRE(found.size() == 2);
  CHECK(found.front().name == "a");
  CHECK(found.front().progress == 0.25);
  CHECK(found.front().p_at_1 == 0.5);
  CHECK(found.front().kind == FoundRun::Kind::kEmpty);
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
}

TEST_CASE_FIXTURE(Runs, "runs: P@1 of a few samples replaces no earlier one") {
  const char* whole = "{\"event\":\"evaluation\",\"p_at_1\":0.5,\"evaluated_samples\":100}\n";
  const char* few = "{\"event\":\"evaluation\",\"p_at_1\":1.0,\"evaluated_samples\":3}\n";
  Write("a/config.ini", "");
  Write("a/metrics.jsonl", fmt::format("{}{}", whole, few));
  CHECK(FindRun(Path("a"))->p_at_1 == 0.5);
  Write("a/metrics.jsonl", few);
  CHECK(FindRun(Path("a"))->p_at_1 == 1.0);
  // A test file of as few samples: the last figure counts.
  const char* first = "{\"event\":\"evaluation\",\"p_at_1\":0.25,\"evaluated_samples\":3}\n";
  Write("a/metrics.jsonl", fmt::format("{}{}", first, few));
  CHECK(FindRun(Path("a"))->p_at_1 == 1.0);
}

// Copies a run as `cp -r` and object stores do: each file gets a time of its own.
TEST_CASE_FIXTURE(Runs, "runs: a copy is in the state of its run, whatever its files' times are") {
  Write("a/config.ini", "");
  Write("a/metrics.jsonl", "{\"event\":\"evaluation\",\"p_at_1\":0.5}\n");
  Write("a/totals.json", "{}");
  Write("a/summary.json", R"({"outcome": "finished", "p_at_1": 0.75})");
  const auto append = [&](const LedgerEntry& entry) {
    LedgerState state;
    const auto ledger = Ok(Ledger::Open(Path("a/ledger"), &state));
    REQUIRE(ledger->Append(entry).ok());
  };
  int copies = 0;
  const auto copy = [&](const std::string& newest) {
    const std::string name = fmt::format("copy-{}", ++copies);
    fs::copy(Path("a"), Path(name), fs::copy_options::recursive);
    const auto now = fs::last_write_time(Path(name + "/config.ini"));
    for (const auto& file : fs::recursive_directory_iterator(Path(name))) {
      const bool is_newest = file.path().filename() == newest;
      fs::last_write_time(file.path(), is_newest ? now + std::chrono::hours(1) : now);
    }
    return *FindRun(Path(name));
  };
  const auto all_are = [&](FoundRun::Kind kind, double p_at_1) {
    for (const char* newest : {"summary.json", "totals.json", "metrics.jsonl", "CURRENT"}) {
      CAPTURE(newest);
      const FoundRun run = copy(newest);
      CHECK(run.kind == kind);
      CHECK(run.p_at_1 == p_at_1);
    }
  };
  append(LedgerOpened{{7}, "", 100, 99});
  append(LedgerPlanned{});
  append(LedgerStopped{true});
  all_are(FoundRun::Kind::kFinished, 0.75);
  // A later start was killed: it has removed the summary.
  append(LedgerPlanned{});
  fs::remove(Path("a/summary.json"));
  all_are(FoundRun::Kind::kEnded, 0.5);
  // It was stopped while the ledger had no room for its last entry.
  Write("a/summary.json", R"({"outcome": "stopped after 2 batches", "p_at_1": 0.125})");
  all_are(FoundRun::Kind::kStopped, 0.125);
  CHECK(copy("CURRENT").outcome == "stopped after 2 batches");
  Write("a/summary.json", R"({"outcome": "finished", "p_at_1": 0.75})");
  // Another life was stopped, and killed before it wrote its summary.
  append(LedgerStopped{false});
  all_are(FoundRun::Kind::kStopped, 0.5);
  Write("a/summary.json", R"({"outcome": "stopped after 3 batches", "p_at_1": 0.25})");
  all_are(FoundRun::Kind::kStopped, 0.25);
  CHECK(copy("totals.json").outcome == "stopped after 3 batches");
}

TEST_CASE_FIXTURE(Runs, "runs: a link to a run is no other run") {
  Write("b/config.ini", "");
  fs::create_directory_symlink("b", Path("a"));
  const auto found = Ok(RunsIn(directory.path()));
  REQUIRE(found.size() == 1);
  CHECK(found.front().name == "b");
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
  // What nobody of a run names so, and what lies elsewhere.
  Write("a/checkpoint/step-best/data", "x");
  Write("a/checkpoint/store-backup/data", "x");
  Write("b/elsewhere/data", "x");
  fs::create_directory_symlink(Path("b/elsewhere"), Path("a/checkpoint/") + CheckpointName(0));
  fs::create_directory_symlink(Path("b/elsewhere"),
                               Path("a/checkpoint/store-server-2-00000000000000ff"));
  Write("a/summary.json", R"({"outcome": "stopped"})");
  CHECK(RemovableOf(*FindRun(Path("a")))->empty());
  Write("a/summary.json", R"({"outcome": "finished"})");
  const auto removable = Ok(RemovableOf(*FindRun(Path("a"))));
  const std::string in = Path("a") + "/checkpoint/";
  CHECK(removable == std::vector<std::string>{in + "orphan-3-12", in + CheckpointName(1),
                                              in + CheckpointName(2), in + CheckpointName(4),
                                              in + "store-server-1-00000000000000ff"});
}

TEST_CASE_FIXTURE(Runs,
                  "runs: nothing goes where checkpoints are another's, or the last is broken") {
  const auto refused = [&](const std::string& names) {
    CAPTURE(names);
    const auto runs = Ok(RunsIn(directory.path()));
    CHECK(MessageOf(RemovableOf(*FindRun(Path("a")), runs), ErrorKind::kFailed).find(names) !=
          std::string::npos);
  };
  Write("a/config.ini", "");
  Write("a/summary.json", R"({"outcome": "finished"})");
  CHECK(RemovableOf(*FindRun(Path("a")))->empty());
  Checkpoint("a", 1, true);
  Checkpoint("a", 2, true);
  CHECK(RemovableOf(*FindRun(Path("a")))->size() == 1);
  const std::string newest = Path("a/checkpoint/") + CheckpointName(2);
  SUBCASE("elsewhere") {
    Write("a/config.ini", "[checkpoint]\ndirectory = " + Path("c") + "\n");
    refused("its checkpoints are in " + Path("c"));
  }
  SUBCASE("behind a link") {
    fs::rename(Path("a/checkpoint"), Path("c"));
    fs::create_directory_symlink("../c", Path("a/checkpoint"));
    refused("its checkpoints are in ../c");
  }
  SUBCASE("another run's too") {
    Write("b/config.ini", "[checkpoint]\ndirectory = " + Path("a/checkpoint") + "\n");
    refused(Path("b") + " has its checkpoints there too");
  }
  SUBCASE("a damaged manifest") {
    std::ofstream(newest + "/manifest") << "damaged";
    refused("damaged");
  }
  SUBCASE("a shard that is not there") {
    Manifest manifest;
    manifest.name = CheckpointName(2);
    manifest.shards = {{"shard-1-0", "server-1", 0, 0, {}}, {"shard-1-1", "server-2", 0, 0, {}}};
    REQUIRE(WriteManifest(newest, manifest).ok());
    refused("shard-1-1");
  }
  SUBCASE("a checkpoint of another run") {
    Manifest manifest;
    manifest.name = CheckpointName(1);
    manifest.run = {7};
    REQUIRE(WriteManifest(Path("a/checkpoint/") + CheckpointName(1), manifest).ok());
    CHECK(RemovableOf(*FindRun(Path("a")))->empty());
  }
}

TEST_CASE_FIXTURE(Runs, "runs: a run that goes on again is not held") {
  Write("a/config.ini", "");
  Write("a/summary.json", R"({"outcome": "finished"})");
  const FoundRun run = *FindRun(Path("a"));
  REQUIRE(run.kind == FoundRun::Kind::kFinished);
  CHECK_FALSE(HeldRun::Hold(run).ok());  // without a ledger it is no run of ours
  LedgerState state;
  {
    const auto ledger = Ok(Ledger::Open(Path("a") + "/ledger", &state));
    CHECK(MessageOf(HeldRun::Hold(run), ErrorKind::kTryLater) == "another process has its ledger");
  }
  {
    const auto held = Ok(HeldRun::Hold(run));
    CHECK(HolderOf(run.directory).held);
    CHECK_FALSE(HeldRun::Hold(run).ok());
    CHECK_FALSE(Ledger::Open(Path("a") + "/ledger", &state).ok());
  }
  Write("a/summary.json", R"({"outcome": "stopped"})");
  CHECK(MessageOf(HeldRun::Hold(run), ErrorKind::kTryLater) == "it is stopped now");
}

TEST_CASE_FIXTURE(Runs, "runs: of a link to a checkpoint only the link is removed") {
  Checkpoint("a", 1, true);
  const std::string there = Path("a/checkpoint/") + CheckpointName(1);
  fs::create_directory_symlink(there, Path("link"));
  RemoveCheckpoint(Path("link"));
  CHECK_FALSE(fs::exists(fs::symlink_status(Path("link"))));
  CHECK(HasManifest(there));
  CHECK(fs::exists(there + "/shard-1-0/data"));
}

}  // namespace
}  // namespace dslide::found_run_test
