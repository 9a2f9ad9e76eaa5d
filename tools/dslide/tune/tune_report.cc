#include "tools/dslide/tune/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "common/config/config_keys.h"

namespace dslide {
namespace {

std::string SettingsText(const KeyValues& settings) {
  std::string text;
  for (const auto& [key, value] : settings) {
    if (key == "train.epochs") continue;  // has a column
    text += (text.empty() ? "" : " ") + key + "=" + value;
  }
  return text.empty() ? "default" : text;
}

std::string ShareText(uint32_t divisor) {
  return divisor == 1 ? "all" : fmt::format("1/{}", divisor);
}

std::string Percent(double fraction) { return fmt::format("{:.2f}", 100 * fraction); }

// The longest finished run of the user's own configuration; nullptr: there is none.
const Trial* LongestOfDefault(const std::vector<Trial>& trials) {
  const Trial* longest = nullptr;
  for (const Trial& trial : trials) {
    if (!trial.candidate.empty() || trial.end != TrialEnd::kFinished) continue;
    if (longest == nullptr || trial.epochs > longest->epochs) longest = &trial;
  }
  return longest;
}

}  // namespace

std::string MeasureTitle(const std::string& measure) {
  const size_t at = measure.find("_at_");
  DSLIDE_CHECK(at != std::string::npos);
  const std::string name = measure.substr(0, at);
  return (name == "ndcg" ? "nDCG" : name == "psp" ? "PSP" : "P") + ("@" + measure.substr(at + 4));
}

std::string IntroText(const Config& base, uint32_t minutes, const std::string& measure) {
  return fmt::format(
      "searches for the best {} on {} in {} (--minutes): a run of 1 epoch tells the speed, then "
      "the plan follows\n",
      MeasureTitle(measure), base.train.test, Plural(minutes, "minute"));
}

std::string CandidatesText(const std::vector<SearchAxis>& axes, uint32_t epochs,
                           size_t candidates) {
  std::string text;
  uint64_t combinations = 1;
  for (const SearchAxis& axis : axes) {
    combinations *= axis.values.size();
    text += fmt::format("  {} = {}\n", axis.key, Joined(axis.values, ", "));
  }
  return text + fmt::format("candidates: the configuration itself, with {}, and {} of {}\n",
                            Plural(epochs, "epoch"), candidates - 1,
                            Plural(combinations, "combination"));
}

std::string TrialHead(const std::string& measure) {
  return fmt::format("{:>5} {:>6} {:>7} {:>8} {:>8}  {}", "trial", "epochs", MeasureTitle(measure),
                     "CPU s", "s", "settings");
}

std::string TrialRow(const Trial& trial, const std::string& measure) {
  const std::string settings = SettingsText(trial.candidate);
  if (trial.end != TrialEnd::kFinished) {
    const std::string why =
        trial.end == TrialEnd::kStopped ? "stopped: the time is over" : "failed: " + trial.reason;
    return fmt::format("{:>5} {:>6} {:>7} {:>8} {:>8.1f}  {}  ({})", trial.number, trial.epochs,
                       "-", "-", trial.seconds, settings, why);
  }
  return fmt::format("{:>5} {:>6} {:>7} {:>8.1f} {:>8.1f}  {}", trial.number, trial.epochs,
                     Percent(MeasureOf(trial, measure)), trial.cpu_seconds, trial.seconds,
                     settings);
}

std::string TrialTable(std::vector<Trial> trials, const std::string& measure) {
  std::ranges::sort(trials,
                    [&](const Trial& a, const Trial& b) { return IsBetter(a, b, measure); });
  std::string table = TrialHead(measure) + "\n";
  for (const Trial& trial : trials) table += TrialRow(trial, measure) + "\n";
  return table;
}

std::string PlanText(const HalvingPlan& plan, const RunTimes& times, uint32_t minutes,
                     double spent_s, uint32_t epochs) {
  const std::string speed = fmt::format("an epoch takes {:.1f} s, a run {:.1f} s besides",
                                        times.epoch_seconds(), times.other_seconds());
  const std::string budget = Plural(minutes, "minute");
  if (plan.rungs.empty()) {
    return fmt::format("{}: too long for a second run in {}; raise --minutes\n", speed, budget);
  }
  std::string text =
      fmt::format("{}; the plan, of at most {}, takes about {:.0f} of {}:\n", speed,
                  Plural(epochs, "epoch"), std::ceil((spent_s + plan.seconds) / 60), budget);
  for (size_t r = 0; r < plan.rungs.size(); ++r) {
    const Rung& rung = plan.rungs[r];
    const bool compares = r > 0 && r + 1 == plan.rungs.size();
    text += fmt::format("  {}{} for {} of their epochs\n", Plural(rung.candidates, "candidate"),
                        compares ? ", and the default," : "", ShareText(rung.divisor));
  }
  if (plan.rungs.back().divisor > 1) text += "  (whole runs take too long; raise --minutes)\n";
  return text;
}

std::string BestText(const Trial& best, const std::vector<Trial>& trials,
                     const std::string& measure) {
  const std::string title = MeasureTitle(measure);
  const Trial* own = LongestOfDefault(trials);
  const auto line = [&](const char* name, const Trial& trial) {
    return fmt::format("{:<9}trial {}: {} {} after {} in {:.1f} CPU s ({})\n", name, trial.number,
                       title, Percent(MeasureOf(trial, measure)), Plural(trial.epochs, "epoch"),
                       trial.cpu_seconds, SettingsText(trial.candidate));
  };
  return line("best", best) + (own == nullptr || own == &best ? "" : line("default", *own));
}

std::string BestIni(const Config& base, const Trial& best, const std::string& measure) {
  const Result<Config> config = WithSettings(base, best.settings);
  DSLIDE_CHECK(config.ok());
  std::string ini = fmt::format(
      "# The best trial of a tuning (number {}): {} {} on train.test.\n"
      "# Every key that is not the default; those that the tuning changed are marked.\n",
      best.number, MeasureTitle(measure), Percent(MeasureOf(best, measure)));
  std::string section;
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string value = key.field.format(*config);
    const bool found = value != key.field.format(base);
    if (value == key.field.format(Config()) && !found) continue;
    if (key.section != section) ini += fmt::format("\n[{}]\n", key.section);
    section = key.section;
    ini += fmt::format("{} = {}{}\n", key.name, value, found ? "  # tuned" : "");
  }
  return ini;
}

}  // namespace dslide
