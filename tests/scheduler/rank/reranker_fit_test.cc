#include "scheduler/rank/reranker_fit.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "scheduler/rank/tree_fit.h"

namespace dslide::reranker_fit_test {
namespace {

TEST_CASE("tree fit: finds the log odds on both sides of a step, and of missing values") {
  Random random(1);
  std::vector<float> rows, targets;
  constexpr uint32_t kRows = 20'000;
  uint32_t seen[3] = {}, ones[3] = {};
  for (uint32_t i = 0; i < kRows; ++i) {
    const size_t kind = random.Below(3);  // low, high, missing
    const uint32_t chance[] = {20, 90, 50};
    const bool one = random.Below(100) < chance[kind];
    rows.push_back(static_cast<float>(random.Below(1000)));  // says nothing
    rows.push_back(kind == 2 ? std::numeric_limits<float>::quiet_NaN()
                             : static_cast<float>(random.Below(1000)) + (kind == 1 ? 1000 : 0));
    targets.push_back(one ? 1 : 0);
    ++seen[kind];
    ones[kind] += one;
  }
  const Result<BoostedTrees> trees = FitTrees(rows, 2, targets);
  REQUIRE(trees.ok());
  double sums[3] = {};
  for (uint32_t i = 0; i < kRows; ++i) {
    const float* row = rows.data() + i * 2;
    const size_t kind = std::isnan(row[1]) ? 2 : row[1] >= 1000 ? 1 : 0;
    sums[kind] += 1 / (1 + std::exp(-trees->Score(row)));
  }
  for (size_t kind = 0; kind < 3; ++kind) {
    CHECK(sums[kind] / seen[kind] ==
          doctest::Approx(static_cast<double>(ones[kind]) / seen[kind]).epsilon(0.02));
  }
  const Result<BoostedTrees> again = FitTrees(rows, 2, targets);
  REQUIRE(again.ok());
  CHECK(again->nodes() == trees->nodes());
}

// Samples whose true label the text names, if `told`, and which the model ranks anywhere.
struct Made {
  std::vector<RankedSample> samples;
  NamesOfSamples names;
  Vocabulary vocabulary;
};

Made MakeSamples(bool told) {
  constexpr uint32_t kLabels = 30, kSamples = 600, kRanked = 10;
  Made made;
  std::vector<std::string> ids;
  std::vector<uint32_t> owners;
  for (uint32_t label = 0; label < kLabels; ++label) {
    ids.push_back(fmt::format("id{}", label));
    owners.push_back(label);
  }
  made.vocabulary = Vocabulary(ids, ids, owners);
  Random random(2);
  for (uint32_t i = 0; i < kSamples; ++i) {
    RankedSample sample;
    const auto truth = static_cast<uint32_t>(random.Below(kLabels));
    sample.labels = {truth};
    const auto first = static_cast<uint32_t>(random.Below(kLabels));
    for (uint32_t rank = 0; rank < kRanked; ++rank) {
      sample.ranked.push_back((first + rank) % kLabels);
      sample.scores.push_back(-static_cast<float>(rank));
    }
    std::vector<NameMatch> matches;
    if (told) matches.push_back({.label = truth, .count = 1, .words = 1, .candidates = 1});
    made.names.Add({matches, 10});
    made.samples.push_back(std::move(sample));
  }
  return made;
}

Result<FittedReranker> Fit(const Made& made) {
  const uint32_t labels = made.vocabulary.size();
  return FitReranker(made.samples, made.names,
                     LabelFacts(std::vector<uint32_t>(labels, 5),
                                std::vector<NameTally>(labels, NameTally{4, 2}), made.vocabulary),
                     "off", InversePropensities());
}

TEST_CASE("reranker fit: names that tell the label bring it to the front") {
  const Made made = MakeSamples(true);
  const Result<FittedReranker> fitted = Fit(made);
  REQUIRE(fitted.ok());
  REQUIRE(fitted->reranker != nullptr);
  CHECK(fitted->model.precision[0] < 0.1);
  CHECK(fitted->reranked.precision[0] > 0.99);
  const RankingMetrics metrics =
      MeasureReranked(*fitted->reranker, made.samples, made.names, InversePropensities());
  CHECK(metrics.precision[0] > 0.99);
  CHECK(metrics.samples == made.samples.size());
  CHECK(HeldOutText(*fitted).starts_with("held out, ranked by model and names: P@1 "));
}

TEST_CASE("reranker fit: adjusted logits order the labels anew") {
  const LabelLogs logs({{.label = 1, .count = 100}, {.label = 4, .count = 10}});
  std::vector<RankedSample> samples = {{{1}, {1, 4, 2}, {3, 2.9f, 1}}};
  AdjustLogits(logs, 0.5f, &samples);
  CHECK(samples[0].ranked == std::vector<uint32_t>{4, 2, 1});
  CHECK(samples[0].scores[0] == doctest::Approx(2.9 - 0.5 * std::log(10.0)));
  CHECK(samples[0].scores[1] == 1);
  CHECK(samples[0].scores[2] == doctest::Approx(3 - 0.5 * std::log(100.0)));
}

TEST_CASE("reranker fit: where names tell nothing the model ranks alone") {
  Made made = MakeSamples(false);
  // The model is always right.
  for (RankedSample& sample : made.samples) sample.labels = {sample.ranked[0]};
  const Result<FittedReranker> fitted = Fit(made);
  REQUIRE(fitted.ok());
  CHECK(fitted->reranker == nullptr);
  CHECK(HeldOutText(*fitted).starts_with("labels are ranked by the model alone"));
}

}  // namespace
}  // namespace dslide::reranker_fit_test
