#include "scheduler/core/setting_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/config/limits.h"
#include "common/config/schedule.h"
#include "scheduler/base/events.h"
#include "scheduler/core/plan_switch.h"
#include "scheduler/pass/adjustment_choice.h"

namespace dslide {
namespace {

constexpr char kDropoutKey[] = "train.dropout_hidden";

void AddSettings(const Overrides& more, RunContext* run) {
  Overrides settings = run->settings;
  settings.insert(settings.end(), more.begin(), more.end());
  UseSettings(std::move(settings), run);
}

void Tell(std::string line, RunState* run, int64_t now_ms) {
  run->totals.choices.push_back(line);
  run->out.Decide({event::kSettingsChosen, std::move(line)}, now_ms);
}

// "held-out nDCG@5 39.72 after epoch 3, 39.66 before it".
std::string LastGainText(const RunState& run) {
  const HeldOutCurve& curve = run.held_out;
  return fmt::format("held-out nDCG@5 {:.2f} after epoch {}, {:.2f} before it", 100 * curve.last(),
                     run.pass().counted().epoch, 100 * curve.before());
}

uint32_t ScheduledEpochs(const TrainConfig& train) {
  return std::max(train.epochs, train.schedule_epochs);
}

// A model that learns slowly in the first half of its schedule will learn its training samples by
// heart rather than improve. Until then dropout would cost what it gains (Liu et al., "Dropout
// Reduces Underfitting", ICML 2023: late dropout). After epoch 4 gnd-tibkat, gnd-text and
// linux-calls gain 4 to 6 %, and lose by it; citeulike, delicious, yso-finna-en and gowalla gain 0
// to 2 %, and win.
bool ShouldRaiseDropout(const RunState& run) {
  constexpr uint32_t kFirst = 3;  // the curve of the epochs before it is uneven
  constexpr double kSlow = 0.03;
  const TrainConfig& train = run.inputs.config.train;
  const float dropout = DropoutHidden(train);
  const uint32_t done = run.pass().counted().epoch;
  const bool open = !train.late_dropout && train.effort != Effort::kFast &&
                    std::ranges::count(run.inputs.open_keys, kDropoutKey) > 0 &&
                    run.inputs.config.model.hidden >= kLeastUnitsForHighDropout;
  return open && dropout > 0 && dropout < kHighDropout && done >= kFirst &&
         2 * done <= ScheduledEpochs(train) && run.held_out.LastGain() < kSlow;
}

void RaiseDropout(RunState* run, int64_t now_ms) {
  Tell(fmt::format("dropout of hidden units is {:.3g} from now on ({:.3g} before): {}",
                   kHighDropout, DropoutHidden(run->inputs.config.train), LastGainText(*run)),
       run, now_ms);
  AddSettings({fmt::format("train.late_dropout={}", run->pass().counted().epoch)}, &run->inputs);
}

// A model that has learned much puts its mass on few neurons, so the same number of draws says less
// about the others.
bool ShouldDrawMore(const RunState& run, const TrainingStats& epoch) {
  constexpr double kHighError = 0.08;
  const TrainConfig& train = run.inputs.config.train;
  return !train.late_negatives && run.pass().counted().epoch < train.epochs &&
         epoch.TailError() > kHighError;
}

void DrawMore(const TrainingStats& epoch, RunState* run, int64_t now_ms) {
  const ModelConfig& model = run->inputs.config.model;
  const double factor = LateNegatives(model) / model.negatives;
  Tell(fmt::format(
           "batches draw {:.1f} times as many neurons (model.negatives = {}) from now on: the "
           "error of the softmax normaliser was {:.2f} in epoch {}",
           factor, model.negatives, epoch.TailError(), run->pass().counted().epoch),
       run, now_ms);
  AddSettings({fmt::format("train.late_negatives={}", run->pass().counted().epoch)}, &run->inputs);
}

// Whether the next epochs should be the cooldown: it gains what the rest of the schedule would.
// No cooldown begins in the epoch in which dropout or negatives rise: the effect is not known yet.
bool ShouldCoolDown(const RunState& run) {
  constexpr double kFlat = 0.015;
  const TrainConfig& train = run.inputs.config.train;
  const uint32_t done = run.pass().counted().epoch;
  return !train.cooldown_epochs && train.decay != Decay::kNone && train.late_dropout != done &&
         train.late_negatives != done && 2 * done >= ScheduledEpochs(train) &&
         done + HeldOutCurve::kCooldownEpochs < train.epochs && run.held_out.LastGain() < kFlat;
}

void BeginCooldown(RunState* run, int64_t now_ms) {
  constexpr uint32_t kEpochs = HeldOutCurve::kCooldownEpochs;
  const TrainConfig& train = run->inputs.config.train;
  const uint32_t epochs = run->pass().counted().epoch + kEpochs;
  Tell(fmt::format("training ends after {} of {} epochs: {}; the learning rate falls to 0 in the "
                   "last {}",
                   epochs, train.epochs, LastGainText(*run), kEpochs),
       run, now_ms);
  AddSettings({fmt::format("train.epochs={}", epochs),
               fmt::format("train.schedule_epochs={}", ScheduledEpochs(train)),
               fmt::format("train.cooldown_epochs={}", kEpochs)},
              &run->inputs);
}

}  // namespace

std::vector<std::string> OpenKeys(const Config& asked) {
  return asked.train.dropout_hidden ? std::vector<std::string>{}
                                    : std::vector{std::string(kDropoutKey)};
}

void OnHeldOutEvaluated(RunState* run, EvaluationResult result, int64_t now_ms) {
  run->out.Record(LedgerHeldOut{result.epoch, result.ndcg});
  run->held_out.Add(result.epoch, std::exchange(result.ndcg, {}));
  std::vector<RankedSample> ranked = std::exchange(result.ranked, {});
  std::string line;
  if (!ranked.empty()) {
    AdjustmentChoice choice =
        ChooseAdjustment(ranked, *run->inputs.label_logs, run->inverse_propensities);
    run->adjustment = choice.adjustment;
    if (ranked.size() == result.metrics.samples) result.metrics = choice.metrics;
    if (!run->inputs.keeps_rankings) ranked.clear();
    run->out.StoreRanking(choice.adjustment, run->checkpointer.newest_directory(),
                          std::move(ranked));
    line = std::move(choice.line);
  }
  run->totals.last_held_out = result;
  run->out.ShowEvaluation(std::move(result), {});
  if (!line.empty()) {
    // A recovery measures the held-out samples again.
    std::erase_if(run->totals.choices,
                  [](const std::string& earlier) { return earlier.starts_with(kAdjustmentLine); });
    Tell(std::move(line), run, now_ms);
  }
  const TrainingStats epoch = run->totals.work.Since(run->totals.work_before);
  run->totals.work_before = run->totals.work;
  if (ShouldDrawMore(*run, epoch)) DrawMore(epoch, run, now_ms);
  if (run->held_out.size() > 1) {
    if (ShouldRaiseDropout(*run)) {
      RaiseDropout(run, now_ms);
    } else if (ShouldCoolDown(*run)) {
      BeginCooldown(run, now_ms);
    }
  }
}

bool ApplyChosenSettings(RunState* run, int64_t now_ms) {
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
