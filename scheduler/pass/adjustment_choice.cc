#include "scheduler/pass/adjustment_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dslide {
namespace {

constexpr float kMostUsual = 0.5f;
constexpr float kMostRare = 1;
constexpr float kRareStep = 0.1f;
constexpr float kRounding = 1e-3f;

double Ndcg(const RankingMetrics& metrics) { return metrics.ndcg[kMaxMetricK - 1]; }
double Psp(const RankingMetrics& metrics) { return metrics.propensity_precision[0]; }

// Gradient and negative Hessian of the log likelihood by s and t.
struct Slopes {
  double s = 0, t = 0;
  double ss = 0, st = 0, tt = 0;

  double Determinant() const { return ss * tt - st * st; }
};

void AddSample(const RankedSample& sample, const std::vector<double>& logs, double s, double t,
               Slopes* slopes) {
  const size_t count = sample.ranked.size();
  std::vector<double> shares(count);
  double highest = -INFINITY, total = 0;
  for (size_t i = 0; i < count; ++i) {
    shares[i] = s * double{sample.scores[i]} - t * logs[i];
    highest = std::max(highest, shares[i]);
  }
  for (double& share : shares) total += share = std::exp(share - highest);
  double z = 0, f = 0, zz = 0, zf = 0, ff = 0;  // means of logits and logs by the model
  double true_z = 0, true_f = 0, truths = 0;
  for (size_t i = 0; i < count; ++i) {
    const double p = shares[i] / total, logit = sample.scores[i];
    z += p * logit;
    f += p * logs[i];
    zz += p * logit * logit;
    zf += p * logit * logs[i];
    ff += p * logs[i] * logs[i];
    if (!std::ranges::binary_search(sample.labels, sample.ranked[i])) continue;
    true_z += logit;
    true_f += logs[i];
    ++truths;
  }
  if (truths == 0) return;
  slopes->s += true_z / truths - z;
  slopes->t -= true_f / truths - f;
  slopes->ss += zz - z * z;
  slopes->st -= zf - z * f;
  slopes->tt += ff - f * f;
}

RankingMetrics MetricsWith(const std::vector<RankedSample>& samples, const LabelLogs& logs,
                           const InversePropensities& propensities, float weight) {
  RankingEvaluator evaluator(propensities);
  for (const RankedSample& sample : samples) {
    evaluator.Add(AdjustedRanking(sample.ranked, sample.scores, logs, weight, kMaxMetricK),
                  sample.labels);
  }
  return evaluator.Result();
}

float UsualWeight(const std::optional<FittedWeight>& fitted) {
  if (!fitted || std::abs(fitted->weight) < 2 * fitted->standard_error) return 0;
  return std::round(100 * std::clamp(fitted->weight, -kMostUsual, kMostUsual)) / 100;
}

}  // namespace

std::optional<FittedWeight> FitWeight(const std::vector<RankedSample>& samples,
                                      const LabelLogs& logs) {
  constexpr int kMostSteps = 100;
  constexpr double kLongestStep = 0.3, kShortestStep = 1e-6;
  std::vector<std::vector<double>> logs_of;
  for (const RankedSample& sample : samples) {
    logs_of.emplace_back();
    for (const uint32_t label : sample.ranked) logs_of.back().push_back(double{logs[label]});
  }
  double s = 1, t = 0;
  for (int step = 0; step < kMostSteps; ++step) {  // Newton's method: the likelihood is concave
    Slopes slopes;
    for (size_t i = 0; i < samples.size(); ++i) AddSample(samples[i], logs_of[i], s, t, &slopes);
    const double determinant = slopes.Determinant();
    if (!(determinant > 1e-9)) return std::nullopt;
    const double by_s = (slopes.tt * slopes.s - slopes.st * slopes.t) / determinant;
    const double by_t = (slopes.ss * slopes.t - slopes.st * slopes.s) / determinant;
    const double length = std::max(std::abs(by_s), std::abs(by_t));
    const double share = std::min(1.0, kLongestStep / length);
    s += share * by_s;
    t += share * by_t;
    if (!(s > 0)) return std::nullopt;  // the model ranks no better than chance
    if (length > kShortestStep) continue;
    return FittedWeight{static_cast<float>(t / s),
                        static_cast<float>(std::sqrt(slopes.ss / determinant) / s)};
  }
  return std::nullopt;
}

AdjustmentChoice ChooseAdjustment(const std::vector<RankedSample>& samples, const LabelLogs& logs,
                                  const InversePropensities& propensities) {
  const std::optional<FittedWeight> fitted = FitWeight(samples, logs);
  const RankingMetrics without = MetricsWith(samples, logs, propensities, 0);
  AdjustmentChoice choice;
  float& usual = choice.adjustment.usual;
  usual = UsualWeight(fitted);
  choice.metrics = MetricsWith(samples, logs, propensities, usual);
  if (Ndcg(choice.metrics) < Ndcg(without) || choice.metrics.precision[0] < without.precision[0]) {
    usual = 0;
    choice.metrics = without;
  }
  choice.adjustment.rare = usual;
  double best = Psp(choice.metrics);
  for (uint32_t step = 1;; ++step) {
    const float weight = usual + static_cast<float>(step) * kRareStep;
    if (weight > kMostRare + kRounding) break;
    const double psp = Psp(MetricsWith(samples, logs, propensities, weight));
    if (psp <= best) continue;
    best = psp;
    choice.adjustment.rare = std::round(100 * weight) / 100;
  }
  const std::string is = usual == 0
                             ? std::string("none")
                             : fmt::format("{:.2f} (held-out nDCG@5 {:.2f}, without it {:.2f})",
                                           usual, 100 * Ndcg(choice.metrics), 100 * Ndcg(without));
  const std::string fit =
      fitted ? fmt::format(", fitted {:.2f} +- {:.2f}", fitted->weight, fitted->standard_error)
             : std::string();
  choice.line = fmt::format(
      "{} by label frequency: {}{}; with --rare 1 {:.2f} (PSP@1 {:.2f}, else {:.2f})",
      kAdjustmentLine, is, fit, choice.adjustment.rare, 100 * best, 100 * Psp(choice.metrics));
  return choice;
}

}  // namespace dslide
