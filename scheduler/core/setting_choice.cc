#include "scheduler/core/setting_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/replanning.h"
#include "scheduler/core/run_course.h"

namespace dslide {
namespace {

void SetSettings(Overrides settings, RunContext* run) {
  run->settings = std::move(settings);
  Result<Config> config = LoadConfig("", run->settings, run->base);
  DSLIDE_CHECK(config.ok());
  run->config = *std::move(config);
}

// The next epochs are the cooldown.
void ChooseCooldown(RunState* run, int64_t now_ms) {
  constexpr uint32_t kEpochs = HeldOutCurve::kCooldownEpochs;
  const HeldOutCurve& curve = run->race.curve();
  const uint32_t done = run->pass().counted().epoch;
  const uint32_t of = run->inputs.config.train.epochs;
  Overrides settings = run->inputs.settings;
  settings.push_back(fmt::format("train.epochs={}", done + kEpochs));
  settings.push_back(fmt::format("train.schedule_epochs={}",
                                 std::max(of, run->inputs.config.train.schedule_epochs)));
  settings.push_back(fmt::format("train.cooldown_epochs={}", kEpochs));
  SetSettings(std::move(settings), &run->inputs);
  run->out.Decide(
      fmt::format("training ends after {} of {} epochs: held-out nDCG@5 {:.2f} after epoch {}, "
                  "{:.2f} before it; the learning rate falls to 0 in the last {}",
                  done + kEpochs, of, 100 * curve.last(), done, 100 * curve.before(), kEpochs),
      now_ms);
}

bool CanCoolDown(const RunState& run) {
  const TrainConfig& train = run.inputs.config.train;
  const uint32_t epochs = run.pass().counted().epoch + HeldOutCurve::kCooldownEpochs;
  return !train.cooldown_epochs && train.decay != Decay::kNone && epochs < train.epochs;
}

// Begins the next trial, or returns to the best one. The best trial is saved before another begins.
void ApplyRaceStep(RunState* run, const Race::Step& step, int64_t now_ms) {
  if (step.is_best) {
    run->checkpointer.MarkTrialBest();
    if (!run->checkpointer.IsSaved(run->pass().BatchesToSave())) {
      run->checkpointer.Want();
      return MaybeCheckpoint(run, now_ms);
    }
  }
  if (!run->MaySwitch()) return;
  const bool begins = step.kind == Race::Step::Kind::kBegin;
  if (begins) {
    run->checkpointer.BeginTrial();
  } else {
    run->checkpointer.EndTrial();
  }
  run->race.SetCurrent(step.trial, step.settings);
  SetSettings(step.settings, &run->inputs);
  const auto& checkpoint = run->checkpointer.newest();
  const std::string from = checkpoint ? checkpoint->name : "";
  run->out.Record(LedgerTrial{step.trial, step.settings, from, run->checkpointer.best_name()});
  const std::string what = step.settings.empty()
                               ? "the run's own configuration"
                               : fmt::format("{}", fmt::join(step.settings, ", "));
  GoBack(run, now_ms,
         begins ? fmt::format("trial {} begins: {}", step.trial + 1, what)
                : fmt::format("trial {} is the best one ({}), and continues from checkpoint {}",
                              step.trial + 1, what, from));
}

}  // namespace

void OnHeldOutEvaluated(RunState* run, EvaluationResult result, int64_t now_ms) {
  run->out.Record(LedgerHeldOut{result.epoch, result.ndcg});
  const size_t judged = run->race.ResultLines().size();
  run->race.Add(result.epoch, std::exchange(result.ndcg, {}));
  run->totals.last_held_out = result;
  const std::vector<std::string> found = run->race.ResultLines();
  for (size_t i = judged; i < found.size(); ++i) run->out.Decide(found[i], now_ms);
  if (run->race.settled() && CanCoolDown(*run) && run->race.curve().StoppedRising()) {
    ChooseCooldown(run, now_ms);
  }
  run->out.ShowEvaluation(std::move(result), {});
}

bool ApplyChosenSettings(RunState* run, int64_t now_ms) {
  const Race::Step step = run->race.Next();
  if (step.kind != Race::Step::Kind::kGoOn) {
    ApplyRaceStep(run, step, now_ms);
    return false;
  }
  if (run->plan().settings == run->inputs.settings) {
    return run->inputs.settings.empty() || run->Settled();
  }
  if (!run->MaySwitch()) return false;
  Plan next = run->plan();
  next.settings = run->inputs.settings;
  run->generation.CancelChange(run->roster(), &run->out);
  SwitchTo(run, std::move(next), now_ms);
  return false;
}

}  // namespace dslide
