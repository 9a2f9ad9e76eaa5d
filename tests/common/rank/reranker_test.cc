#include "common/rank/reranker.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace dslide::reranker_test {
namespace {

float At(const Candidates& candidates, size_t row, RankFeature feature) {
  return candidates.rows[row * kRankFeatures + static_cast<uint32_t>(feature)];
}

// Label 0 was named in 8 texts and right in 6, label 1 was never named.
LabelFacts Facts() {
  return LabelFacts({9, 0, 4}, {{8, 6}, {0, 0}, {2, 0}},
                    Vocabulary({"a", "b", "c"}, {"house", "boat", "tree"}, {0, 1, 2}));
}

TEST_CASE("candidates: the model's labels, and behind them the other named ones") {
  const std::vector<uint32_t> labels = {2, 0};
  const std::vector<float> logits = {2.0f, 1.0f};
  const std::vector<NameMatch> matches = {
      {.label = 0, .count = 3, .in_title = 1, .first = 5, .words = 2, .candidates = 4},
      {.label = 1, .count = 1, .first = 0, .words = 1, .candidates = 1, .is_whole = true}};
  Candidates c;
  Facts().MakeCandidates(labels, logits, {matches, 20}, &c);
  REQUIRE(c.labels == std::vector<uint32_t>{2, 0, 1});
  const float log_sum = std::log(std::exp(2.0f) + std::exp(1.0f));
  CHECK(At(c, 0, RankFeature::kLogProbability) == doctest::Approx(2 - log_sum));
  CHECK(At(c, 1, RankFeature::kLogProbability) == doctest::Approx(1 - log_sum));
  CHECK(At(c, 1, RankFeature::kRank) == 1);
  CHECK(At(c, 1, RankFeature::kGap) == -1);
  CHECK(At(c, 1, RankFeature::kNameCount) == 3);
  CHECK(At(c, 1, RankFeature::kNamesInTitle) == 1);
  CHECK(At(c, 1, RankFeature::kNameFirst) == 5);
  CHECK(At(c, 1, RankFeature::kNameFirstShare) == doctest::Approx(0.25));
  CHECK(At(c, 1, RankFeature::kNameWords) == 2);
  CHECK(At(c, 1, RankFeature::kNameIsWhole) == 0);
  CHECK(At(c, 1, RankFeature::kNameCandidates) == 4);
  CHECK(At(c, 1, RankFeature::kLogSamples) == doctest::Approx(std::log(10.0)));
  CHECK(At(c, 1, RankFeature::kLogHits) == doctest::Approx(std::log(9.0)));
  CHECK(At(c, 1, RankFeature::kTextWords) == 20);
  CHECK(At(c, 1, RankFeature::kNameLength) == 5);
  // All matches: (6 + 1) / (10 + 2).
  CHECK(At(c, 1, RankFeature::kLogReliability) ==
        doctest::Approx(std::log((6 + 3 * 7.0 / 12) / (8 + 3))));
  CHECK(At(c, 2, RankFeature::kLabelReliability) == doctest::Approx(std::log(7.0 / 12)));
  CHECK(At(c, 2, RankFeature::kNameIsWhole) == 1);
  CHECK(std::isnan(At(c, 2, RankFeature::kRank)));  // the model does not rank it
  CHECK(At(c, 0, RankFeature::kNameIsWhole) == -1);
  CHECK(std::isnan(At(c, 0, RankFeature::kNameFirst)));
}

TEST_CASE("reranker: orders candidates by their trees, equal ones by label") {
  Result<BoostedTrees> trees =
      BoostedTrees::Of({{static_cast<int32_t>(RankFeature::kNameCount), 0.5f, 1, 2, true},
                        {.value = -1},
                        {.value = 0}},
                       {0}, kRankFeatures);
  REQUIRE(trees.ok());
  const Reranker reranker(Facts(), *std::move(trees), "off");
  const std::vector<uint32_t> labels = {2, 0};
  const std::vector<float> logits = {2.0f, 1.0f};
  const std::vector<NameMatch> matches = {{.label = 1, .count = 1}};
  const std::vector<RerankedLabel> ranked = reranker.Rank(labels, logits, {matches, 20});
  REQUIRE(ranked.size() == 3);
  CHECK(ranked[0].label == 1);
  CHECK(ranked[0].probability == doctest::Approx(0.5));
  CHECK(ranked[1].label == 0);
  CHECK(ranked[1].probability == doctest::Approx(1 / (1 + std::exp(1.0))));
  CHECK(ranked[2].label == 2);
  CHECK(reranker.Rank({}, {}, {}).empty());
}

}  // namespace
}  // namespace dslide::reranker_test
