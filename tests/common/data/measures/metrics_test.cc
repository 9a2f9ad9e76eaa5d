#include "common/data/measures/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/data/measures/data_facts.h"

namespace dslide {
namespace {

using Ids = std::vector<uint32_t>;

// Discounts 1 / log2(rank + 1) of the ranks 1 to 5.
constexpr double kD1 = 1.0;
constexpr double kD2 = 0.6309297535714575;
constexpr double kD3 = 0.5;
constexpr double kD4 = 0.43067655807339306;
constexpr double kD5 = 0.38685280723454163;

template <size_t kSize>
void CheckNear(const double (&actual)[kMaxMetricK], const double (&expected)[kSize]) {
  static_assert(kSize == kMaxMetricK);
  for (int k = 0; k < kMaxMetricK; ++k) {
    CAPTURE(k);
    CHECK(actual[k] == doctest::Approx(expected[k]).epsilon(1e-12));
  }
}

// values[i] of label i.
InversePropensities Inverse(const std::vector<float>& values) {
  std::vector<std::pair<uint32_t, float>> of_labels;
  for (const float value : values) {
    of_labels.emplace_back(static_cast<uint32_t>(of_labels.size()), value);
  }
  return {std::move(of_labels), 0.0f};
}

void AddLabels(Dataset* dataset, const Ids& labels) { dataset->Add({labels, {}, {}}); }

}  // namespace

TEST_CASE("all metrics over two samples by hand") {
  // Sample A: true {0, 3}, predicted 3 1 0 2 4: hits at the ranks 1 (label 3) and 3 (label 0).
  // Sample B: true {1}, predicted 0 2 3 1 4: a hit at rank 4 (label 1).
  RankingEvaluator evaluator(Inverse({2, 4, 8, 16, 32}));
  evaluator.Add(Ids{3, 1, 0, 2, 4}, Ids{0, 3});
  evaluator.Add(Ids{0, 2, 3, 1, 4}, Ids{1});
  const RankingMetrics metrics = evaluator.Result();
  CHECK(metrics.samples == 2);
  // Hits of A: 1 1 2 2 2, of B: 0 0 0 1 1; over k, halved.
  CheckNear(metrics.precision, {0.5, 0.25, 2.0 / 6, 3.0 / 8, 3.0 / 10});
  // A: D1/D1, D1/(D1+D2), then (D1+D3)/(D1+D2). B: 0 0 0, then D4/D1.
  const double a = (kD1 + kD3) / (kD1 + kD2);
  CheckNear(metrics.ndcg,
            {0.5, 0.5 * kD1 / (kD1 + kD2), 0.5 * a, 0.5 * (a + kD4), 0.5 * (a + kD4)});
  // Weighted hits of A: 16 16 18 18 18, of B: 0 0 0 4 4. Best of A: 16 18 18 18 18, of B: 4 always.
  CheckNear(metrics.propensity_precision, {16.0 / 20, 16.0 / 22, 18.0 / 22, 22.0 / 22, 22.0 / 22});
}

TEST_CASE("how often a label occurs, as its samples see it, and as labels do") {
  CHECK(DataFactsOf(Dataset(3, 4), 0).label_repeats == 0.0);
  CHECK(DataFactsOf(Dataset(3, 4), 0).median_label == 0);
  Dataset data(3, 1000);
  const std::vector<uint32_t> none, once = {999, 5}, twice = {5};
  data.Add({once, none, {}});
  data.Add({twice, none, {}});
  data.Add({none, none, {}});
  CHECK(DataFactsOf(data, 3).label_repeats == doctest::Approx((1.0 + 4.0) / 3.0));
  const std::vector<uint32_t> often = {7};  // two labels that occur once or twice, and one of five
  for (int i = 0; i < 5; ++i) data.Add({often, none, {}});
  CHECK(DataFactsOf(data, 6).median_label == 2);
  CHECK(DataFactsOf(data, 6).samples == 6);
}

TEST_CASE("inverse propensities by hand") {
  // A = 1, B = 1, N = 4: C = (ln 4 - 1) * 2 = 0.7725887222397811.
  // Counts 3, 1, 0: 1 + C/4, 1 + C/2, 1 + C/1.
  Dataset train(1, 3);
  AddLabels(&train, {0, 1});
  AddLabels(&train, {0});
  AddLabels(&train, {});
  AddLabels(&train, {0});
  const InversePropensities inverse(train, 1.0, 1.0);
  CHECK(inverse[0] == doctest::Approx(1.1931471805599454));
  CHECK(inverse[1] == doctest::Approx(1.3862943611198906));
  CHECK(inverse[2] == doctest::Approx(1.7725887222397811));
}

TEST_CASE("inverse propensities with the usual A = 0.55 and B = 1.5") {
  // N = 3: C = (ln 3 - 1) * 2.5^0.55 = 0.0986122887 * 1.6552 = 0.1632; with a count of 1 the factor
  // (1 + 1.5)^-0.55 cancels 2.5^0.55, leaving 1 + (ln 3 - 1) = ln 3.
  Dataset train(1, 2);
  AddLabels(&train, {0});
  AddLabels(&train, {});
  AddLabels(&train, {});
  const InversePropensities inverse(train);
  CHECK(inverse[0] == doctest::Approx(std::log(3.0)));
  // A count of 0: 1 + 0.0986122887 * (2.5 / 1.5)^0.55 = 1 + 0.0986122887 * 1.32439 = 1.13060.
  CHECK(inverse[1] == doctest::Approx(1.13060).epsilon(1e-5));
}

TEST_CASE("without training samples all propensities are 1") {
  const InversePropensities inverse(Dataset(1, 2));
  CHECK(inverse.known());
  CHECK(inverse[0] == 1);
  CHECK(inverse[1] == 1);
}

TEST_CASE("inverse propensities cost nothing for labels that do not occur") {
  Dataset train(1, 4294967295);
  AddLabels(&train, {7, 4294967294});
  AddLabels(&train, {7});
  const InversePropensities inverse(train, 1.0, 1.0);
  const double c = (std::log(2.0) - 1.0) * 2;
  CHECK(inverse[7] == doctest::Approx(1 + c / 3));
  CHECK(inverse[4294967294] == doctest::Approx(1 + c / 2));
  for (const uint32_t other : {0u, 6u, 8u, 4294967293u}) {
    CHECK(inverse[other] == doctest::Approx(1 + c));
  }
}

}  // namespace dslide
