#include "common/data/measures/logit_adjustment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace dslide::logit_adjustment_test {
namespace {

TEST_CASE("logit adjustment: logs of counts, of labels that occur and of others") {
  const LabelLogs logs({{3, 1}, {7, 100}, {9, 2}});
  CHECK(logs[7] == std::log(100.0f));
  CHECK(logs[9] == std::log(2.0f));
  for (const uint32_t once_or_never : {0u, 3u, 8u, 10u}) CHECK(logs[once_or_never] == 0.0f);
  CHECK(LabelLogs()[5] == 0.0f);
}

TEST_CASE("logit adjustment: rankings as sorted by score less the weighted log") {
  Random random(1);
  std::vector<LabelCount> counts;
  std::vector<uint32_t> labels;
  std::vector<float> scores;
  for (uint32_t label = 0; label < 40; ++label) {
    counts.push_back({label, 1 + random.Below(1000)});
    labels.push_back(39 - label);
    scores.push_back(static_cast<float>(random.Below(20)));  // many are equal
  }
  const LabelLogs logs(counts);
  for (const float weight : {-0.5f, 0.0f, 0.3f, 1.0f}) {
    std::vector<uint32_t> expected = labels;
    std::ranges::sort(expected, [&](uint32_t a, uint32_t b) {
      const float of_a = scores[39 - a] - weight * std::log(static_cast<float>(counts[a].count));
      const float of_b = scores[39 - b] - weight * std::log(static_cast<float>(counts[b].count));
      return of_a != of_b ? of_a > of_b : a < b;
    });
    expected.resize(5);
    CHECK(AdjustedRanking(labels, scores, logs, weight, 5) == expected);
  }
  CHECK(AdjustedRanking(labels, scores, logs, 0.3f, 100).size() == 40);
  CHECK(AdjustedRanking({}, {}, logs, 0.3f, 5).empty());
}

TEST_CASE("logit adjustment: the mean label of a training sample keeps its bias") {
  const std::vector<uint32_t> counts = {0, 1, 10, 1000, 5};
  const BiasShift shift(counts, 0.4f);
  double sum = 0;
  for (uint32_t label = 0; label < counts.size(); ++label) {
    sum += double{shift[label]} * counts[label];
  }
  CHECK(sum == doctest::Approx(0).epsilon(1e-3));
  CHECK(shift[3] - shift[1] == doctest::Approx(0.4 * std::log(1000.0)));
  CHECK(shift[0] == shift[1]);
  const std::vector<uint32_t> none = {0, 0};
  CHECK(BiasShift(none, 1)[0] == 0.0f);
}

TEST_CASE("logit adjustment: between the usual ranking and that for rare labels") {
  const LogitAdjustment adjustment{-0.2f, 0.6f};
  CHECK(adjustment.At(0) == -0.2f);
  CHECK(adjustment.At(0.25f) == doctest::Approx(0.0));
  CHECK(adjustment.At(1) == doctest::Approx(0.6));
}

}  // namespace
}  // namespace dslide::logit_adjustment_test
