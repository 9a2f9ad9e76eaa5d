// dslide tune: trials as real processes, what is left of them, and what an interruption leaves.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "tests/cluster/cluster.h"

namespace dslide::tune_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<Json> Trials(const TestRun& run) {
  std::vector<Json> trials;
  std::istringstream lines(ReadFile(run.run_directory() + "/trials.jsonl"));
  for (std::string line; std::getline(lines, line);) trials.push_back(Json::parse(line));
  return trials;
}

Arguments Tune(const TestRun& run, const Arguments& more) {
  Arguments arguments = {"tune", "--config", run.config(), "--run-dir", run.run_directory()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Synchronous training, so that a run can be repeated; three candidates.
Arguments Small(const TestRun& run, const Arguments& more = {}) {
  Arguments arguments = Tune(run, {"--set", "train.staleness=0", "--set", "train.batch=256",
                                   "--search", "train.learning_rate=0.1x,0.3x"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The trial with the highest P@1, then the least CPU time.
Json Best(const std::vector<Json>& trials) {
  return *std::ranges::min_element(trials, {}, [](const Json& trial) {
    return std::pair(-trial.value("p_at_1", -1.0), trial.value("cpu_seconds", 0.0));
  });
}

std::string TrialPath(const TestRun& run, const Json& trial) {
  return run.run_directory() + "/trial-" + trial["trial"].dump();
}

// Each configuration once, and a directory with a model for the best trial only.
void CheckFinished(const TestRun& run) {
  const std::vector<Json> trials = Trials(run);
  std::set<std::string> settings;
  const std::string best = TrialPath(run, Best(trials));
  for (const Json& trial : trials) {
    CHECK(settings.insert(trial["settings"].dump()).second);
    CHECK(fs::exists(TrialPath(run, trial) + "/summary.json"));
    CHECK(fs::exists(TrialPath(run, trial) + "/checkpoint") == (TrialPath(run, trial) == best));
  }
  // A third of three epochs, then all of them, for the best and the default.
  CHECK(settings.contains(R"({"train.epochs":"1","train.warmup_batches":"7"})"));
  CHECK(settings.contains("{}"));
  CHECK(trials.size() >= 4);
}

TEST_CASE("tune: best.ini reproduces the best trial, whose model is left") {
  TestRun run;
  REQUIRE_MESSAGE(run.Run("dslide", Small(run)) == 0, run.last_errors());
  const std::string output = run.last_output();
  CheckFinished(run);
  const Json best = Best(Trials(run));
  CHECK(Contains(output, "best     trial " + best["trial"].dump() + ": P@1 "));
  CHECK(Contains(output, "dslide train --config " + run.run_directory() + "/best.ini"));
  CHECK(output.starts_with(
      "searches for the best P@1 on " + run.Path("test.txt") +
      " in 30 minutes (--minutes): a run of 1 epoch tells the speed, then the plan follows\n"));
  CHECK(Contains(output,
                 "  train.learning_rate = 0.1x, 0.3x\ncandidates: the configuration itself, with 3 "
                 "epochs, and 2 of 2 combinations\n"));
  CHECK(Contains(output, "; the plan, of at most 9 epochs, takes about "));
  CHECK(Contains(output, "  3 candidates for 1/3 of their epochs\n"));

  REQUIRE(run.Run("dslide", {"train", "--config", run.run_directory() + "/best.ini", "--run-dir",
                             run.Path("again")}) == 0);
  const Json again = Json::parse(ReadFile(run.Path("again") + "/summary.json"));
  for (const char* measure : {"p_at_1", "p_at_5", "ndcg_at_3"}) {
    CHECK(again[measure] == best[measure]);
  }
  CHECK(run.Run("dslide", {"predict", "--checkpoint", TrialPath(run, best), "--data",
                           run.Path("test.txt"), "--output", run.Path("predictions")}) == 0);

  // Neither command works in a directory of the other.
  const auto refused = [&](Arguments arguments, const std::string& directory,
                           const std::string& names) {
    arguments.insert(arguments.end(), {"--run-dir", directory});
    CHECK(run.Run("dslide", arguments) == 2);
    CHECK(run.last_output().empty());
    CHECK(run.last_errors() ==
          "dslide " + arguments[0] + ": --run-dir: " + directory + names + "\n");
  };
  const std::string holds_run = " holds a run of dslide train; name another directory";
  const std::string holds_tuning = " holds a tuning of dslide tune; name another directory";
  refused({"tune", "--config", run.config()}, run.Path("again"), holds_run);
  refused({"train", "--config", run.config()}, run.run_directory(), holds_tuning);
  refused({"train", "--config", run.config(), "--resume"}, run.run_directory(), holds_tuning);
  CHECK_FALSE(fs::exists(run.Path("again") + "/tune.json"));
  CHECK_FALSE(fs::exists(run.run_directory() + "/logs"));
}

TEST_CASE("tune: Ctrl-C writes what is known, and --resume goes on with it") {
  TestRun run;
  const auto tune = run.Start("dslide", Small(run), "worker.before-report=delay:50");
  REQUIRE(WaitFor([&] { return Trials(run).size() == 2 && Descendants(tune->pid()).size() == 4; }));
  CHECK(run.Run("dslide", {"tune", "--resume", "--run-dir", run.run_directory()}) == 75);
  CHECK(Contains(run.last_errors(), "another dslide tune works there"));
  const auto children = Descendants(tune->pid());
  tune->Signal(SIGINT);
  REQUIRE(tune->Wait() == 85);
  CHECK(std::ranges::all_of(children, IsGone));
  CHECK(Contains(tune->Output(), "stopping trial 3; another signal"));
  CHECK(Contains(tune->Errors(), "go on with: dslide tune --resume --run-dir "));
  CHECK(Contains(tune->Output(), "best     trial "));
  CHECK(fs::exists(run.run_directory() + "/best.ini"));
  const std::vector<Json> before = Trials(run);

  CHECK(run.Run("dslide", Small(run)) == 2);
  CHECK(Contains(run.last_errors(), "has a tuning; go on with it by --resume"));
  REQUIRE(run.Run("dslide", {"tune", "--resume", "--run-dir", run.run_directory()}) == 0);
  const std::vector<Json> after = Trials(run);
  REQUIRE(after.size() > before.size());
  CHECK(std::equal(before.begin(), before.end(), after.begin()));
  CheckFinished(run);
  // Nothing is left to do, and the same options do no harm.
  REQUIRE(run.Run("dslide", Small(run, {"--resume"})) == 0);
  CHECK(Trials(run) == after);

  // As if the process had been killed behind the line of the best trial.
  const std::string best_ini = run.run_directory() + "/best.ini";
  const std::string text = ReadFile(best_ini);
  fs::remove(best_ini);
  for (const Json& trial : after) fs::create_directory(TrialPath(run, trial) + "/checkpoint");
  REQUIRE(run.Run("dslide", {"tune", "--resume", "--run-dir", run.run_directory()}) == 0);
  CHECK(ReadFile(best_ini) == text);
  CheckFinished(run);
}

TEST_CASE("tune: a line of trials.jsonl that this program refuses is named") {
  TestRun run;
  REQUIRE(run.Run("dslide", Small(run)) == 0);
  const std::string path = run.run_directory() + "/trials.jsonl";
  Json trial = Trials(run)[0];
  trial["settings"]["model.hiden"] = "16";
  std::ofstream(path) << trial.dump() + "\n";
  CHECK(run.Run("dslide", {"tune", "--resume", "--run-dir", run.run_directory()}) == 2);
  CHECK(Contains(run.last_errors(), path + ":1: "));
  CHECK(Contains(run.last_errors(), "did you mean model.hidden?; remove the line to try it again"));
}

TEST_CASE("tune: --resume goes on after kill -9") {
  TestRun run;
  const auto tune = run.Start("dslide", Small(run), "worker.before-report=delay:50");
  REQUIRE(WaitFor([&] { return Trials(run).size() == 1 && Descendants(tune->pid()).size() == 4; }));
  const auto children = Descendants(tune->pid());
  tune->Signal(SIGKILL);
  REQUIRE(run.Run("dslide", Small(run, {"--resume", "--minutes", "6"})) == 0);
  CHECK(WaitFor([&] { return std::ranges::all_of(children, IsGone); }));
  CheckFinished(run);
}

TEST_CASE("tune: a trial that fails is out and reported") {
  TestRun run;
  REQUIRE(run.Run("dslide",
                  Tune(run, {"--search", "model.hidden=8192,16", "--set", "cluster.memory_mb=4",
                             "--set", "cluster.disk_tier=off", "--minutes", "5"})) == 0);
  CHECK(Contains(run.last_output(), "model.hidden=8192  (failed: too little memory"));
  size_t failed = 0;
  for (const Json& trial : Trials(run)) {
    if (trial["outcome"] == "finished") continue;
    ++failed;
    CHECK(trial["settings"]["model.hidden"] == "8192");
    CHECK(fs::exists(TrialPath(run, trial) + "/train.log"));
  }
  CHECK(failed == 1);
}

TEST_CASE("tune: a configuration that cannot be trained ends it") {
  TestRun run;
  // Behind the beginning of the data: nothing is left.
  std::ofstream(run.Path("cut.txt")) << "2 300 200\n1 2:3\n";
  CHECK(run.Run("dslide", Small(run, {"--set", "train.data=" + run.Path("cut.txt")})) == 2);
  CHECK(Contains(run.last_errors(),
                 "the configuration itself cannot be trained: " + run.Path("cut.txt")));
  CHECK_FALSE(Contains(run.last_output(), "trial"));
  CHECK_FALSE(fs::exists(run.run_directory()));
  const auto tune = run.Start("dslide", Small(run), "worker.join=kill");
  REQUIRE(tune->Wait() == 1);
  CHECK(Contains(tune->Errors(), "the configuration itself cannot be trained: worker-1 ended"));
  CHECK(run.Run("dslide", Small(run, {"--set", "train.data=" + run.Path("absent.txt")})) == 2);
  CHECK(Contains(run.last_errors(), run.Path("absent.txt") + ": cannot open"));
  CHECK_FALSE(fs::exists(run.run_directory() + "/best.ini"));
}

TEST_CASE("tune: wrong uses are refused in one line, before anything is trained") {
  TestRun run;
  const auto refused = [&](const Arguments& more, const std::string& names) {
    CAPTURE(names);
    CHECK(run.Run("dslide", Small(run, more)) == 2);
    const std::string& errors = run.last_errors();
    CAPTURE(errors);
    CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
    CHECK(Contains(errors, names));
    CHECK(run.last_output().empty());
    CHECK_FALSE(fs::exists(run.run_directory()));
  };
  std::ofstream(run.Path("unknown.txt")) << "many samples\n";
  refused({"--set", "train.data=" + run.Path("absent")}, run.Path("absent") + ": cannot open");
  refused({"--set", "train.test=" + run.Path("unknown.txt")}, "begins no known format");
  refused({"--set", "train.test="}, "train.test is empty: settings are compared on samples");
  refused({"--set", "train.data="}, "train.data is empty");
  refused({"--set", "train.data=-"}, "train.data = -: is read once, but each trial reads it");
  refused({"--set", "train.test=/dev/null"}, "train.test = /dev/null: is read once");
  refused({"--minutes", "0"}, "--minutes 0: must be");
  refused({"--candidates", "1"}, "--candidates 1: must be");
  refused({"--candidates", "244"}, "--candidates 244: must be");
  refused({"--seed", "-1"}, "--seed -1: must be a whole number");
  refused({"--measure", "p_at_2"}, "--measure p_at_2: must be p_at_1, ");
  refused({"--search", "model.hiden=1"}, "did you mean model.hidden?");
  refused({"--search", "train.batch=0"}, "--search train.batch=0: ");
  refused({"--search", "train.data=a,b"}, "is not a setting of the model or the training");
  refused({"--search", "train.learning_rate=1x"}, "train.learning_rate is given twice");
  CHECK(run.Run("dslide", Tune(run, {"--search", "train.learning_rate=1x"})) == 2);
  CHECK(Contains(run.last_errors(), "is what the configuration has; name other values"));
  refused({"--resume"}, "holds no tuning (it has no tune.json)");
  refused({"--servers", "0"}, "--servers 0: must be");
  refused({"--set", "train.epoch=3"}, "train.epochs");
}

}  // namespace
}  // namespace dslide::tune_test
