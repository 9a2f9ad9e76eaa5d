#include "scheduler/pass/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "common/config/limits.h"

namespace dslide {
namespace {

// A trial stays if it is better by so many standard errors of the paired difference; ties go to the
// run's own configuration.
constexpr double kBetter = 1.0;
// After the second epoch a trial that is worse by so many is given up; after the first one only if
// it is worse by this share, since regularised models begin slowly.
constexpr double kWorse = 2.0;
constexpr double kFarBehind = 0.25;

constexpr char kRateKey[] = "train.learning_rate";

struct Difference {
  double mean = 0;
  double error = 0;  // its standard error
};

Difference PairedDifference(const std::vector<float>& a, const std::vector<float>& b) {
  DSLIDE_CHECK(a.size() == b.size());
  const auto n = static_cast<double>(a.size());
  double sum = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - b[i];
    sum += difference;
    squares += difference * difference;
  }
  if (n < 2) return {n == 0 ? 0 : sum, 0};
  const double variance = std::max(0.0, squares - sum * sum / n) / (n - 1);
  return {sum / n, std::sqrt(variance / n)};
}

std::string Setting(const std::string& key, const std::string& value) { return key + "=" + value; }

Overrides With(Overrides settings, const std::string& key, const std::string& value) {
  std::erase_if(settings, [&](const std::string& s) { return s.starts_with(key + "="); });
  settings.push_back(Setting(key, value));
  return settings;
}

std::string ValueIn(const Overrides& settings, const RaceAxis& axis) {
  for (const std::string& setting : settings) {
    if (setting.starts_with(axis.key + "=")) return setting.substr(axis.key.size() + 1);
  }
  return axis.own;
}

}  // namespace

std::vector<std::string> OpenKeys(const Config& asked) {
  std::vector<std::string> keys;
  if (!asked.train.dropout_hidden) keys.push_back(kDropoutKey);
  if (asked.train.learning_rate == 0.0f) keys.push_back(kRateKey);
  return keys;
}

std::vector<RaceAxis> AxesOf(const std::vector<std::string>& keys, const Config& resolved) {
  std::vector<RaceAxis> axes;
  for (const std::string& key : keys) {
    RaceAxis axis{key, "", {}};
    if (key == kDropoutKey) {
      const float dropout = DropoutHidden(resolved.train);
      axis.own = fmt::format("{:.3g}", dropout);
      if (dropout > 0 && dropout < kHighDropout) {
        axis.values = {fmt::format("{:.3g}", kHighDropout)};
      }
    } else if (key == kRateKey) {
      const float rate = resolved.train.learning_rate;
      axis.own = fmt::format("{:.3g}", rate);
      for (const float factor : {0.5f, 0.25f}) {
        axis.values.push_back(fmt::format("{:.3g}", rate * factor));
      }
    }
    if (!axis.values.empty()) axes.push_back(std::move(axis));
  }
  return axes;
}

void Race::SetCurrent(uint32_t trial, const Overrides& settings) {
  if (trial >= trials_.size()) trials_.resize(trial + 1);
  trials_[trial].settings = settings;
  current_ = trial;
}

Race::Verdict Race::Judge(uint32_t trial, uint32_t best) const {
  const HeldOutCurve& own = trials_[trial].curve;
  for (uint32_t epochs = 1; epochs <= kTrialEpochs; ++epochs) {
    const std::vector<float>*a = own.At(epochs), *b = trials_[best].curve.At(epochs);
    if (a == nullptr || b == nullptr) return Verdict::kOpen;
    const auto [mean, error] = PairedDifference(*a, *b);
    if (epochs == kTrialEpochs) return mean > kBetter * error ? Verdict::kWon : Verdict::kLost;
    const double behind = epochs == 1 ? kFarBehind * HeldOutCurve::Mean(*b) : 0;
    if (mean < -std::max(behind, kWorse * error)) return Verdict::kLost;
  }
  return Verdict::kOpen;
}

Race::Standing Race::Stand() const {
  Standing standing;
  uint32_t trial = 1;
  for (; standing.axis < axes_.size(); ++standing.axis) {
    const RaceAxis& axis = axes_[standing.axis];
    for (standing.value = 0; standing.value < axis.values.size(); ++standing.value, ++trial) {
      if (trial == trials_.size()) return standing;
      const Verdict verdict = Judge(trial, standing.best);
      const HeldOutCurve &own = trials_[trial].curve, &other = trials_[standing.best].curve;
      standing.epochs += static_cast<uint32_t>(own.size());
      standing.open = verdict == Verdict::kOpen;
      if (standing.open) return standing;
      const auto epochs = std::min(kTrialEpochs, static_cast<uint32_t>(own.size()));
      standing.lines.push_back(
          fmt::format("{} {}: held-out nDCG@5 {:.2f} after {}, {}: {:.2f}", axis.key,
                      axis.values[standing.value], 100 * HeldOutCurve::Mean(*own.At(epochs)),
                      Plural(epochs, "epoch"), ValueIn(trials_[standing.best].settings, axis),
                      100 * HeldOutCurve::Mean(*other.At(epochs))));
      if (verdict == Verdict::kLost) {
        ++trial;
        break;
      }
      standing.best = trial;
    }
  }
  return standing;
}

bool Race::settled() const {
  const Standing standing = Stand();
  return !standing.open && standing.best == current_ && !MayBegin(standing);
}

Race::Step Race::Next() const {
  Standing standing = Stand();
  if (standing.open) return {};
  if (trials_[standing.best].curve.At(kTrialEpochs) == nullptr) return {};  // not ready to compare
  Step step;
  step.is_best = standing.best == current_;
  step.settings = trials_[standing.best].settings;
  if (MayBegin(standing)) {
    const RaceAxis& axis = axes_[standing.axis];
    step.kind = Step::Kind::kBegin;
    step.trial = static_cast<uint32_t>(trials_.size());
    step.settings = With(std::move(step.settings), axis.key, axis.values[standing.value]);
  } else if (standing.best != current_) {
    step.kind = Step::Kind::kReturn;
    step.trial = standing.best;
  }
  return step;
}

}  // namespace dslide
