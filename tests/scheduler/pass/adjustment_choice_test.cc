#include "scheduler/pass/adjustment_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace dslide::adjustment_choice_test {
namespace {

constexpr uint32_t kLabels = 60;

// Label j has 1 + j * j training samples.
LabelLogs Logs() {
  std::vector<LabelCount> counts;
  for (uint32_t label = 0; label < kLabels; ++label) counts.push_back({label, 1 + label * label});
  return LabelLogs(counts);
}

double LogOf(uint32_t label) { return std::log(1.0 + label * label); }

double Draw(Random* random) { return static_cast<double>(random->Below(1'000'000)) / 1'000'000; }

// Samples whose true label is drawn from the softmax of scale * score - weight * log(count) of the
// labels that the model ranks, whose scores are random.
std::vector<RankedSample> Drawn(size_t samples, double scale, double weight, uint64_t seed) {
  Random random(seed);
  std::vector<RankedSample> drawn(samples);
  for (RankedSample& sample : drawn) {
    std::vector<std::pair<float, uint32_t>> scores;
    for (uint32_t label = 0; label < kLabels; ++label) {
      scores.emplace_back(static_cast<float>(6 * Draw(&random)), label);
    }
    std::ranges::sort(scores, std::ranges::greater());
    scores.resize(kAdjustedLabels);
    double total = 0;
    for (const auto& [score, label] : scores) {
      sample.ranked.push_back(label);
      sample.scores.push_back(score);
      total += std::exp(scale * double{score} - weight * LogOf(label));
    }
    double left = total * Draw(&random);
    uint32_t chosen = scores.back().second;
    for (const auto& [score, label] : scores) {
      left -= std::exp(scale * double{score} - weight * LogOf(label));
      if (left > 0) continue;
      chosen = label;
      break;
    }
    sample.labels = {chosen};
  }
  return drawn;
}

AdjustmentChoice Choose(const std::vector<RankedSample>& samples) {
  std::vector<std::pair<uint32_t, float>> propensities;
  for (uint32_t label = 0; label < kLabels; ++label) {
    propensities.emplace_back(label, 1 + 20.0f / static_cast<float>(1 + label));
  }
  return ChooseAdjustment(samples, Logs(), InversePropensities(propensities, 21));
}

TEST_CASE("adjustment choice: the fit finds the weight and scale that samples were drawn with") {
  for (const double scale : {0.7, 1.0, 1.6}) {
    for (const double weight : {-0.3, 0.0, 0.2, 0.45}) {
      CAPTURE(scale);
      CAPTURE(weight);
      const auto fitted = FitWeight(Drawn(4000, scale, weight, 1), Logs());
      REQUIRE(fitted);
      CHECK(fitted->standard_error > 0.002f);
      CHECK(fitted->standard_error < 0.05f);
      CHECK(std::abs(double{fitted->weight} - weight / scale) < 4 * double{fitted->standard_error});
    }
  }
}

// Its likelihood at the fit is not less than anywhere near it, by sums that know no derivatives.
TEST_CASE("adjustment choice: no other scale and weight are more likely") {
  const std::vector<RankedSample> samples = Drawn(500, 1.2, 0.3, 2);
  const auto likelihood = [&](double s, double t) {
    double sum = 0;
    for (const RankedSample& sample : samples) {
      double total = 0, chosen = 0;
      for (size_t i = 0; i < sample.ranked.size(); ++i) {
        const double logit = s * double{sample.scores[i]} - t * LogOf(sample.ranked[i]);
        total += std::exp(logit);
        if (sample.ranked[i] == sample.labels[0]) chosen = logit;
      }
      sum += chosen - std::log(total);
    }
    return sum;
  };
  const double weight = double{FitWeight(samples, Logs())->weight};
  double best = -1e30, best_weight = 0;
  for (double s = 0.9; s < 1.5; s += 0.02) {
    for (double ratio = weight - 0.1; ratio < weight + 0.1; ratio += 0.005) {
      const double at = likelihood(s, ratio * s);
      if (at <= best) continue;
      best = at;
      best_weight = ratio;
    }
  }
  CHECK(std::abs(best_weight - weight) < 0.006);
}

TEST_CASE("adjustment choice: the fitted weight where it is clear, with its metrics") {
  const std::vector<RankedSample> samples = Drawn(3000, 1, 0.3, 3);
  const AdjustmentChoice choice = Choose(samples);
  CHECK(std::abs(choice.adjustment.usual - 0.3f) < 0.05f);
  CHECK(choice.adjustment.rare >= choice.adjustment.usual);
  CHECK(choice.adjustment.rare <= 1);
  double hits = 0;
  for (const RankedSample& sample : samples) {
    const auto best =
        AdjustedRanking(sample.ranked, sample.scores, Logs(), choice.adjustment.usual, 1);
    hits += best[0] == sample.labels[0] ? 1 : 0;
  }
  CHECK(choice.metrics.precision[0] == doctest::Approx(hits / 3000));
  CHECK(choice.line.find("without it") != std::string::npos);
}

TEST_CASE("adjustment choice: rare labels are preferred up to the best PSP@1") {
  std::vector<std::pair<uint32_t, float>> values;
  for (uint32_t label = 0; label < kLabels; ++label) {
    values.emplace_back(label, 1 + 20.0f / static_cast<float>(1 + label));
  }
  for (const double weight : {-0.2, 0.1, 0.3}) {
    const std::vector<RankedSample> samples = Drawn(2000, 1, weight, 9);
    const LogitAdjustment chosen = Choose(samples).adjustment;
    const auto psp = [&](float at) {
      RankingEvaluator evaluator(InversePropensities(values, 21));
      for (const RankedSample& sample : samples) {
        evaluator.Add(AdjustedRanking(sample.ranked, sample.scores, Logs(), at, 1), sample.labels);
      }
      return evaluator.Result().propensity_precision[0];
    };
    CHECK(chosen.rare > chosen.usual);
    for (float at = chosen.usual; at < 1; at += 0.1f) CHECK(psp(chosen.rare) >= psp(at) - 1e-9);
  }
}

TEST_CASE("adjustment choice: none where the fit is within twice its error") {
  const AdjustmentChoice choice = Choose(Drawn(50, 1, 0, 4));
  CHECK(choice.adjustment.usual == 0);
  CHECK(choice.line.find("frequency: none") != std::string::npos);
}

// Where the frequent label leads by little it is right more often than a straight line through all
// leads says.
TEST_CASE("adjustment choice: none where the clear fit costs P@1") {
  constexpr uint32_t kFrequent = 50, kRare = 3;
  struct Lead {
    float logit;
    int right, wrong;
  };
  std::vector<RankedSample> samples;
  for (const Lead& lead : {Lead{0.1f, 1100, 900}, Lead{1, 560, 440}, Lead{3, 2970, 30}}) {
    for (int i = 0; i < lead.right + lead.wrong; ++i) {
      samples.emplace_back();
      samples.back().ranked = {kFrequent, kRare};
      samples.back().scores = {lead.logit, 0};
      samples.back().labels = {i < lead.right ? kFrequent : kRare};
    }
  }
  const auto fitted = FitWeight(samples, Logs());
  REQUIRE(fitted);
  CHECK(fitted->weight > 2 * fitted->standard_error);
  const AdjustmentChoice choice = Choose(samples);
  CHECK(choice.adjustment.usual == 0);
  CHECK(choice.metrics.precision[0] == doctest::Approx((1100 + 560 + 2970) / 6000.0));
}

TEST_CASE("adjustment choice: no usual ranking is far from the model's own") {
  CHECK(Choose(Drawn(2000, 0.5, 1, 5)).adjustment.usual == 0.5f);
  CHECK(Choose(Drawn(2000, 0.5, -1, 6)).adjustment.usual == -0.5f);
}

TEST_CASE("adjustment choice: none where nothing can be fitted") {
  std::vector<RankedSample> samples = Drawn(100, 1, 0.3, 7);
  SUBCASE("no true label is ranked") {
    for (RankedSample& sample : samples) sample.labels = {kLabels};
  }
  SUBCASE("samples have no labels") {
    for (RankedSample& sample : samples) sample.labels.clear();
  }
  SUBCASE("nothing is ranked") {
    for (RankedSample& sample : samples) {
      sample.ranked.clear();
      sample.scores.clear();
    }
  }
  SUBCASE("scores are equal") {
    for (RankedSample& sample : samples) std::ranges::fill(sample.scores, 1.0f);
  }
  SUBCASE("the best label is never true") {
    for (RankedSample& sample : samples) sample.labels = {sample.ranked.back()};
  }
  SUBCASE("the best label is always true") {
    for (RankedSample& sample : samples) sample.labels = {sample.ranked.front()};
  }
  const AdjustmentChoice choice = Choose(samples);
  CHECK(choice.adjustment.usual == 0);
  CHECK(choice.metrics.samples == 100);
}

TEST_CASE("adjustment choice: several true labels have equal shares") {
  std::vector<RankedSample> samples = Drawn(1000, 1, 0.2, 8), halves;
  const std::vector<RankedSample> others = Drawn(1000, 1, 0.2, 8);
  for (RankedSample& sample : samples) {
    const uint32_t another = sample.ranked[sample.ranked[0] == sample.labels[0] ? 1 : 0];
    for (const uint32_t label : {sample.labels[0], another}) {
      halves.push_back(sample);
      halves.back().labels = {label};
    }
    sample.labels.push_back(another);
    std::ranges::sort(sample.labels);
  }
  const auto together = FitWeight(samples, Logs()), apart = FitWeight(halves, Logs());
  REQUIRE(together);
  REQUIRE(apart);
  CHECK(together->weight == doctest::Approx(apart->weight).epsilon(1e-4));
}

}  // namespace
}  // namespace dslide::adjustment_choice_test
