#include "common/data/measures/measures.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace dslide::measures_test {
namespace {

using Ids = std::vector<uint32_t>;

struct Sample {
  Ids ranked, labels;
};

// Eight labels: a usual sample, one with a late hit, one without labels, one with fewer predictions
// than k and one with more labels than k for most k.
const std::vector<Sample> kSamples = {{{3, 1, 0, 2, 4, 5}, {0, 3}},
                                      {{0, 2, 3, 1, 4, 6}, {1}},
                                      {{0, 1, 2, 3, 4, 5}, {}},
                                      {{7, 5}, {2, 4, 7}},
                                      {{0, 6, 4, 1, 7, 2}, {0, 1, 2, 3, 5, 6}}};

// The inverse propensity of label l is 2^l.
InversePropensities PowersOfTwo() {
  std::vector<std::pair<uint32_t, float>> values;
  for (uint32_t label = 0; label < 8; ++label) {
    values.emplace_back(label, static_cast<float>(1u << label));
  }
  return {std::move(values), 0.0f};
}

// Of kSamples, from numpy 1.24 and scikit-learn 1.2 on 5 x 8 indicator matrices T of the true
// labels and P of the first k predictions: f1_score(T, P, average="samples" and "micro",
// zero_division=0), average="macro" with labels=the columns of T that are not empty; the others by
// the formulas of pyxclib's xc_metrics.py, with sums over matrices of flags.
const MeasuresAtK kExpected[] = {
    {.k = 1,
     .precision = 0.6,
     .ndcg = 0.6,
     .recall = 0.19999999999999998,
     .f1 = 0.29047619047619044,
     .hit_rate = 0.6,
     .reciprocal_rank = 0.6,
     .propensity_precision = 0.6782178217821783,
     .propensity_ndcg = 0.6782178217821783,
     .over_labels = {0.35294117647058826, 0.2583333333333333, 0.375}},
    {.k = 3,
     .precision = 0.3333333333333333,
     .ndcg = 0.4308720304319131,
     .recall = 0.3333333333333333,
     .f1 = 0.3288888888888889,
     .hit_rate = 0.6,
     .reciprocal_rank = 0.6,
     .propensity_precision = 0.7680608365019012,
     .propensity_ndcg = 0.7402298370922678,
     .over_labels = {0.3846153846153846, 0.3958333333333333, 0.5}},
    {.k = 5,
     .precision = 0.28,
     .ndcg = 0.5037781786190374,
     .recall = 0.5666666666666667,
     .f1 = 0.37004329004329006,
     .hit_rate = 0.8,
     .reciprocal_rank = 0.65,
     .propensity_precision = 0.7657992565055762,
     .propensity_ndcg = 0.7752682869648273,
     .over_labels = {0.4117647058823529, 0.425, 0.625}},
    {.k = 10,
     .precision = 0.16,
     .ndcg = 0.5102624546713933,
     .recall = 0.6,
     .f1 = 0.3704761904761905,
     .hit_rate = 0.8,
     .reciprocal_rank = 0.65,
     .propensity_precision = 0.7777777777777778,
     .propensity_ndcg = 0.7889243161959038,
     .over_labels = {0.42105263157894735, 0.42499999999999993, 0.75}},
};

Measures MeasuresOf(const std::vector<Sample>& samples, Ids cutoffs,
                    InversePropensities propensities = {}, FrequencyBands bands = {}) {
  MeasureAccumulator accumulator(std::move(cutoffs), std::move(propensities), std::move(bands));
  for (const Sample& sample : samples) accumulator.Add(sample.ranked, sample.labels);
  return accumulator.Result();
}

doctest::Approx Near(double value) { return doctest::Approx(value).epsilon(1e-12); }

void CheckNear(const MeasuresAtK& actual, const MeasuresAtK& expected) {
  CAPTURE(expected.k);
  CHECK(actual.k == expected.k);
  CHECK(actual.precision == Near(expected.precision));
  CHECK(actual.ndcg == Near(expected.ndcg));
  CHECK(actual.recall == Near(expected.recall));
  CHECK(actual.f1 == Near(expected.f1));
  CHECK(actual.hit_rate == Near(expected.hit_rate));
  CHECK(actual.reciprocal_rank == Near(expected.reciprocal_rank));
  CHECK(actual.propensity_precision == Near(expected.propensity_precision));
  CHECK(actual.propensity_ndcg == Near(expected.propensity_ndcg));
  CHECK(actual.over_labels.micro_f1 == Near(expected.over_labels.micro_f1));
  CHECK(actual.over_labels.macro_f1 == Near(expected.over_labels.macro_f1));
  CHECK(actual.over_labels.coverage == Near(expected.over_labels.coverage));
}

void CheckBand(const BandMeasures& band, uint64_t occurrences, const std::vector<double>& precision,
               const std::vector<double>& recall) {
  CHECK(band.occurrences == occurrences);
  REQUIRE(band.precision.size() == precision.size());
  REQUIRE(band.recall.size() == recall.size());
  for (size_t c = 0; c < precision.size(); ++c) {
    CAPTURE(c);
    CHECK(band.precision[c] == Near(precision[c]));
    CHECK(band.recall[c] == Near(recall[c]));
  }
}

TEST_CASE("measures: all of them as scikit-learn and pyxclib have them") {
  const Measures measures = MeasuresOf(kSamples, {1, 3, 5, 10}, PowersOfTwo());
  CHECK(measures.samples == 5);
  CHECK(measures.samples_without_labels == 1);
  CHECK(measures.labels_in_data == 8);
  CHECK(measures.with_propensities);
  CHECK_FALSE(measures.bands);
  REQUIRE(measures.at.size() == 4);
  for (size_t c = 0; c < 4; ++c) CheckNear(measures.at[c], kExpected[c]);
}

TEST_CASE("measures: a cutoff does not depend on the others") {
  for (const MeasuresAtK& expected : kExpected) {
    const Measures measures = MeasuresOf(kSamples, {expected.k}, PowersOfTwo());
    REQUIRE(measures.at.size() == 1);
    CheckNear(measures.at[0], expected);
  }
}

TEST_CASE("measures: bands by training frequency add up to P@k") {
  // 70 occurrences: label 0 has 30, [0, 30) with the middle 15 below 70/3: head. Labels 1 and 2
  // have 10 each, [30, 50): middle. The others are in the tail, label 7 because it does not occur.
  const FrequencyBands bands({{0, 30}, {1, 10}, {2, 10}, {3, 8}, {4, 6}, {5, 4}, {6, 2}});
  const Measures measures = MeasuresOf(kSamples, {1, 3, 5, 10}, {}, bands);
  REQUIRE(measures.bands);
  // By numpy: sums of T & P over the columns of a band, over 5 k and over those of T.
  CheckBand((*measures.bands)[0], 2, {0.2, 0.13333333333333333, 0.08, 0.04}, {0.5, 1, 1, 1});
  CheckBand((*measures.bands)[1], 4, {0, 0, 0.08, 0.06}, {0, 0, 0.5, 0.75});
  CheckBand((*measures.bands)[2], 6, {0.4, 0.2, 0.12, 0.06}, {0.3333333333333333, 0.5, 0.5, 0.5});
  for (size_t c = 0; c < 4; ++c) {
    double sum = 0;
    for (const BandMeasures& band : *measures.bands) sum += band.precision[c];
    CHECK(sum == Near(measures.at[c].precision));
  }
}

TEST_CASE("measures: without samples, labels or predictions they are 0") {
  const FrequencyBands nothing_occurs(std::vector<LabelCount>{});
  for (const std::vector<Sample>& samples :
       {std::vector<Sample>{}, {{{}, {}}}, {{{4, 5}, {}}}, {{{}, {4, 5}}}, {{{6, 7}, {4, 5}}}}) {
    const Measures measures = MeasuresOf(samples, {1, 20}, PowersOfTwo(), nothing_occurs);
    CHECK(measures.samples == samples.size());
    for (size_t c = 0; c < 2; ++c) CheckNear(measures.at[c], {.k = c == 0 ? 1u : 20u});
    for (const BandMeasures& band : *measures.bands) {
      CHECK(band.precision == std::vector<double>{0, 0});
      CHECK(band.recall == std::vector<double>{0, 0});
    }
  }
}

TEST_CASE("measures: of a perfect ranking they are 1, but for P where labels are too few") {
  const Measures measures = MeasuresOf({{{2, 1}, {1, 2}}, {{6, 5}, {5, 6}}}, {2, 4}, PowersOfTwo());
  CheckNear(measures.at[0], {2, 1, 1, 1, 1, 1, 1, 1, 1, {1, 1, 1}});
  CheckNear(measures.at[1], {4, 0.5, 1, 1, 1, 1, 1, 1, 1, {1, 1, 1}});
}

TEST_CASE("measures: P, nDCG and PSP are those of the evaluation while training") {
  for (const InversePropensities& propensities : {PowersOfTwo(), InversePropensities()}) {
    RankingEvaluator evaluator(propensities);
    MeasureAccumulator accumulator({1, 2, 3, 4, 5}, propensities, {});
    Random random(17);
    for (uint64_t samples = 0; samples <= 200; ++samples) {
      const RankingMetrics expected = evaluator.Result();
      const Measures measures = accumulator.Result();
      CHECK(expected.samples == samples);
      for (size_t c = 0; c < kMaxMetricK; ++c) {
        CHECK(measures.at[c].precision == Near(expected.precision[c]));
        CHECK(measures.at[c].ndcg == Near(expected.ndcg[c]));
        CHECK(measures.at[c].propensity_precision == Near(expected.propensity_precision[c]));
      }
      Ids ranked = {0, 1, 2, 3, 4, 5, 6, 7}, labels;
      for (size_t end = ranked.size(); end > 1; --end) {
        std::swap(ranked[end - 1], ranked[random.Below(end)]);
      }
      ranked.resize(random.Below(9));
      for (uint32_t label = 0; label < 8; ++label) {
        if (random.Below(3) == 0) labels.push_back(label);
      }
      evaluator.Add(ranked, labels);
      accumulator.Add(ranked, labels);
    }
  }
}

}  // namespace
}  // namespace dslide::measures_test
