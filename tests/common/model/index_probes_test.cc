#include "common/model/index_probes.h"

#include <doctest/doctest.h>

#include "common/model/ranker.h"
#include "common/run/combine.h"
#include "tests/common/model/small_model.h"

namespace dslide::index_probes_test {
namespace {

constexpr uint32_t kFeatures = 20;

// The share of the best neurons that requests of one sample find by the index.
double RecallOfSingles(const std::shared_ptr<const Model>& model, const SparseRows& samples) {
  Ranker ranker(model, BestKernels());
  const Matrix hidden = *ranker.Embed(samples);
  RankRequest request;
  request.k = kIndexRecallAt;
  size_t both = 0, all = 0;
  for (uint32_t i = 0; i < hidden.rows; ++i) {
    const Matrix one = OneRow(hidden, i);
    request.search = ModelSearch::kExact;
    const TopKReply exact = ranker.Rank(one, request)->best;
    request.search = ModelSearch::kIndex;
    both += CountCommon(exact.Ids(0), ranker.Rank(one, request)->best.Ids(0));
    all += exact.ids.size();
  }
  return static_cast<double>(both) / static_cast<double>(all);
}

TEST_CASE("index: what it is said to find, requests of one sample find") {
  for (const uint32_t labels : {300u, 4000u}) {
    CAPTURE(labels);
    const auto model = SmallModel(kFeatures, 16, labels, labels).Build();
    REQUIRE(model->cells() > 0);
    const SparseRows samples = SmallSamples(200, kFeatures, 5);
    const IndexTrial trial = ChooseProbes(model, samples);
    if (trial.model->info().probes == 0) continue;  // a search reads all rows
    CHECK(trial.model->info().index_recall >= kWantedIndexRecall);
    CHECK(RecallOfSingles(trial.model, samples) ==
          doctest::Approx(trial.model->info().index_recall));
    CHECK(RecallOfSingles(trial.model, SmallSamples(200, kFeatures, 6)) >
          kWantedIndexRecall - 0.03);
  }
}

}  // namespace
}  // namespace dslide::index_probes_test
