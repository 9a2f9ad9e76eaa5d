// What a tuning keeps, and the search that a user writes: tune.json, trials.jsonl, --search.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tools/dslide/tune/search_space.h"
#include "tools/dslide/tune/trial.h"
#include "tools/dslide/tune/tuner.h"

namespace dslide::tune_fuzz {
namespace {

using fuzz::Inputs;

// Each line is a --search.
bool ReadSearches(const std::string& text) {
  const Config base;
  std::vector<std::string> searches;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) searches.push_back(line);
  const Result<std::vector<SearchAxis>> axes = ParseSearches(searches, base);
  if (!fuzz::Accepted(axes) || axes->empty()) return false;
  Config effective = base;
  ResolveConfig(100, 1000, &effective);
  for (const Candidate& candidate : DrawCandidates(base, effective, *axes, 5, 1)) {
    DSLIDE_CHECK(WithSettings(base, candidate.settings).ok());
  }
  return true;
}

bool Run(std::string_view input) {
  bool accepted = ReadSearches(std::string(input));
  const Result<TuneTask> task = ParseTask(std::string(input), "tune.json");
  if (fuzz::Accepted(task)) {
    DSLIDE_CHECK(TaskText(*ParseTask(TaskText(*task), "again")) == TaskText(*task));
    accepted = true;
  }
  const Result<std::vector<Trial>> trials = ParseTrials(input, "trials.jsonl");
  if (!fuzz::Accepted(trials)) return accepted;
  const Result<std::vector<Trial>> again = ParseTrials(TrialLines(*trials), "again");
  DSLIDE_CHECK(again.ok() && again->size() == trials->size());
  (void)BestOf(*trials, "p_at_1");
  return accepted || !trials->empty();
}

Inputs Seeds() {
  Trial trial;
  trial.number = 3;
  trial.candidate = {{"model.hidden", "64"}};
  trial.settings = {{"model.hidden", "64"}, {"train.epochs", "2"}};
  trial.epochs = 2;
  trial.figures = {{"p_at_1", 0.5}};
  trial.cpu_seconds = 1.5;
  Trial failed;
  failed.end = TrialEnd::kFailed;
  failed.reason = "no memory";
  TuneTask task;
  task.searches = {"model.hidden=64,128"};
  return {TrialLines({trial, failed}),
          TaskText(task),
          "model.hidden=64,128,256",
          "train.learning_rate=0.5x,1x,0.1",
          "train.epochs=0,3",
          "model.hidden=64,128\ntrain.epochs=2,3",
          "train.epochs=2\ntrain.epochs=3",
          "model.hidden=64,64",
          "model.hidden=",
          "x.y=1",
          "{}\n"};
}

const fuzz::Entered kEntered({"tune", Run, Seeds});

}  // namespace
}  // namespace dslide::tune_fuzz
