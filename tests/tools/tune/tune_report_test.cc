// Trials: their order, their lines on the disk and in the table, and best.ini.
#include "tools/dslide/tune/tune_report.h"

#include <doctest/doctest.h>

#include "tests/support/results.h"
#include "tools/dslide/tune/trial.h"

namespace dslide::tune_report_test {
namespace {

Trial Finished(uint32_t number, double p_at_1, double cpu_seconds, KeyValues candidate = {}) {
  Trial trial;
  trial.number = number;
  trial.candidate = trial.settings = std::move(candidate);
  trial.epochs = 8;
  trial.figures = {{"p_at_1", p_at_1}, {"ndcg_at_5", 1 - p_at_1}};
  trial.cpu_seconds = cpu_seconds;
  trial.train_seconds = 3;
  trial.seconds = 4;
  return trial;
}

Trial Ended(uint32_t number, TrialEnd end, const std::string& reason) {
  Trial trial;
  trial.number = number;
  trial.candidate = trial.settings = {{"model.hidden", "64"}};
  trial.end = end;
  trial.reason = reason;
  trial.seconds = 1.5;
  return trial;
}

TEST_CASE("trial: lines of trials.jsonl are read as they were written") {
  const std::vector<Trial> trials = {
      Finished(1, 0.5, 10), Finished(2, 1.0 / 3, 7.25, {{"train.learning_rate", "0.1"}}),
      Ended(4, TrialEnd::kFailed, "no \"memory\""), Ended(5, TrialEnd::kStopped, "")};
  const std::string lines = TrialLines(trials);
  const auto read = Ok(ParseTrials(lines, "trials.jsonl"));
  CHECK(read == trials);
  CHECK(ParseTrials("", "trials.jsonl")->empty());
  for (const std::string& wrong : {std::string("{}"), std::string("nothing"), lines.substr(5)}) {
    CHECK(MessageOf(ParseTrials(TrialLines({trials[0]}) + wrong, "trials.jsonl")) ==
          "trials.jsonl:2: is no trial; remove the line to try it again");
  }
}

TEST_CASE("trial: the best has the highest measure, then the least CPU time") {
  std::vector<Trial> trials = {Ended(1, TrialEnd::kFailed, "x"), Finished(2, 0.4, 1),
                               Finished(3, 0.5, 9), Finished(4, 0.5, 8), Finished(5, 0.5, 8)};
  CHECK(BestOf(trials, "p_at_1")->number == 4);
  CHECK(BestOf(trials, "ndcg_at_5")->number == 2);
  trials.resize(1);
  CHECK(BestOf(trials, "p_at_1") == nullptr);
  CHECK_FALSE(OutcomeOf(trials[0], "p_at_1").ok);
}

TEST_CASE("tune report: the best trial stands first, those that did not finish last") {
  const std::vector<Trial> trials = {Ended(1, TrialEnd::kFailed, "why"),
                                     Ended(2, TrialEnd::kStopped, ""), Finished(3, 0.25, 1),
                                     Finished(4, 0.5, 12, {{"model.hidden", "64"}})};
  CHECK(TrialTable(trials, "p_at_1") ==
        "trial epochs     P@1    CPU s        s  settings\n"
        "    4      8   50.00     12.0      4.0  model.hidden=64\n"
        "    3      8   25.00      1.0      4.0  default\n"
        "    1      1       -        -      1.5  model.hidden=64  (failed: why)\n"
        "    2      1       -        -      1.5  model.hidden=64  (stopped: the time is over)\n");
  CHECK(BestText(trials[3], trials, "p_at_1") ==
        "best     trial 4: P@1 50.00 after 8 epochs in 12.0 CPU s (model.hidden=64)\n"
        "default  trial 3: P@1 25.00 after 8 epochs in 1.0 CPU s (default)\n");
  CHECK(BestText(trials[2], trials, "ndcg_at_5") ==
        "best     trial 3: nDCG@5 75.00 after 8 epochs in 1.0 CPU s (default)\n");
}

TEST_CASE("tune report: the plan") {
  RunTimes times;
  times.Add(1, 1, {true, 0, 1, 3, 1});
  const HalvingPlan plan{{{9, 9}, {3, 3}, {1, 1}}, 64};
  CHECK(PlanText(plan, times, 2, 3, 20) ==
        "an epoch takes 1.0 s, a run 2.0 s besides; the plan, of at most 20 epochs, takes about 2 "
        "of 2 minutes:\n"
        "  9 candidates for 1/9 of their epochs\n"
        "  3 candidates for 1/3 of their epochs\n"
        "  1 candidate, and the default, for all of their epochs\n");
  CHECK(PlanText({{{2, 3}}, 10}, times, 1, 3, 6) ==
        "an epoch takes 1.0 s, a run 2.0 s besides; the plan, of at most 6 epochs, takes about 1 "
        "of 1 minute:\n"
        "  2 candidates for 1/3 of their epochs\n"
        "  (whole runs take too long; raise --minutes)\n");
  CHECK(PlanText({}, times, 1, 3, 6) ==
        "an epoch takes 1.0 s, a run 2.0 s besides: too long for a second run in 1 minute; raise "
        "--minutes\n");
}

TEST_CASE("tune report: best.ini has the user's keys and those that were found") {
  Config base;
  base.train.data = "train.jsonl";
  base.model.hidden = 64;
  const Trial best = Finished(7, 0.5, 1, {{"model.hidden", "512"}, {"train.epochs", "3"}});
  const std::string ini = BestIni(base, best, "p_at_1");
  CHECK(ini ==
        "# The best trial of a tuning (number 7): P@1 50.00 on train.test.\n"
        "# Every key that is not the default; those that the tuning changed are marked.\n"
        "\n[model]\nhidden = 512  # tuned\n"
        "\n[train]\ndata = train.jsonl\nepochs = 3  # tuned\n");
  const auto read = Ok(ParseConfig(ini, "best.ini"));
  CHECK(read == *WithSettings(base, best.settings));
}

}  // namespace
}  // namespace dslide::tune_report_test
