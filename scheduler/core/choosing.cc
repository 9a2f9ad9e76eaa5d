#include "scheduler/core/choosing.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/replanning.h"

namespace dslide {
namespace {

void Choose(const std::string& key, uint32_t value, RunContext* run) {
  const std::string name = key + "=";
  std::erase_if(run->settings, [&](const std::string& s) { return s.starts_with(name); });
  run->settings.push_back(name + std::to_string(value));
}

// Training ends with a cooldown from here on.
void ChooseCooldown(RunState* run, int64_t now_ms) {
  constexpr uint32_t kEpochs = HeldOutCurve::kCooldownEpochs;
  RunContext& inputs = run->inputs;
  const uint32_t done = run->pass().counted().epoch;
  const uint32_t of = inputs.config.train.epochs;
  const uint32_t scheduled = std::max(of, inputs.config.train.schedule_epochs);
  Choose("train.epochs", done + kEpochs, &inputs);
  Choose("train.schedule_epochs", scheduled, &inputs);
  Choose("train.cooldown_epochs", kEpochs, &inputs);
  Result<Config> config = LoadConfig("", inputs.settings, inputs.base);
  DSLIDE_CHECK(config.ok());
  inputs.config = *std::move(config);
  run->out.Decide(
      fmt::format("training ends after {} of {} epochs: held-out nDCG@5 {:.2f} after epoch {}, "
                  "{:.2f} before it; the learning rate falls to 0 in the last {}",
                  done + kEpochs, of, 100 * run->held_out.last(), done,
                  100 * run->held_out.before(), kEpochs),
      now_ms);
}

}  // namespace

void OnHeldOut(RunState* run, EvaluationResult result, int64_t now_ms) {
  run->out.Record(LedgerHeldOut{result.epoch, result.ndcg});
  run->held_out.Add(result.epoch, std::exchange(result.ndcg, {}));
  const TrainConfig& train = run->inputs.config.train;
  const bool open = !train.cooldown_epochs && train.decay != Decay::kNone;
  if (open && result.epoch + HeldOutCurve::kCooldownEpochs < train.epochs &&
      run->held_out.StoppedRising()) {
    ChooseCooldown(run, now_ms);
  }
  run->out.ShowEvaluation(std::move(result), {});
}

bool TakeUpChoices(RunState* run, int64_t now_ms) {
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
