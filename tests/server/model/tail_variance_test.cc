// The variance that a query reports, against the scatter of the normaliser over many draws.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/run/combine.h"
#include "server/model/output_layer.h"
#include "tests/server/support/test_batches.h"

namespace dslide::tail_variance_test {
namespace {

constexpr uint32_t kNeurons = 1500, kHidden = 6, kSamples = 3, kDraws = 3000;

struct Scatter {
  std::vector<double> reported = std::vector<double>(kSamples);  // mean over the draws
  std::vector<double> measured = std::vector<double>(kSamples);
};

// Relative to the exact sums squared.
Scatter ScatterOf(const Config& config) {
  OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
  layer.layer().Initialise(5, 0.8f, kNeurons);
  if (layer.index() != nullptr) layer.index()->tables().CatchUp();
  Random random(4);
  ActiveQuery query;
  query.hidden = Matrix(kSamples, kHidden);
  for (float& h : query.hidden.data) h = static_cast<float>(random.Uniform());
  for (uint32_t i = 0; i < kSamples; ++i) {
    query.labels.ids.push_back(7 * i);
    query.labels.EndRow();
    query.label_totals.push_back(1);
  }
  query.probe_samples = kSamples;
  std::vector<double> exact(kSamples);
  for (uint32_t i = 0; i < kSamples; ++i) {
    for (uint32_t id = 0; id < kNeurons; ++id) {
      const uint32_t row = layer.layer().map().Local(id);
      double logit = layer.layer().bias(row);
      for (uint32_t d = 0; d < kHidden; ++d) {
        logit += double{layer.layer().row(row).weights[d]} * query.hidden.row(i)[d];
      }
      exact[i] += std::exp(logit);
    }
  }
  Scatter scatter;
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    OutputBatch batch;
    const ActiveReply reply =
        layer.Query(query, {SubSeed(8, draw), config.model.negatives}, &batch);
    REQUIRE(reply.tail_variance.size() == kSamples);
    for (uint32_t i = 0; i < kSamples; ++i) {
      const double sum = reply.sum_exp[i] * std::exp(double{reply.max[i]});
      const double off = sum / exact[i] - 1;
      scatter.measured[i] += off * off / kDraws;
      const double relative = sum / exact[i];
      scatter.reported[i] += reply.tail_variance[i] * relative * relative / kDraws;
    }
  }
  return scatter;
}

TEST_CASE("the tail's variance is that of the normaliser over draws") {
  for (const ActiveSet active : {ActiveSet::kMass, ActiveSet::kLsh}) {
    CAPTURE(static_cast<int>(active));
    Config config = SmallConfig(50, kNeurons, kHidden);
    config.model.active = active;
    config.model.negatives = 200;
    const Scatter scatter = ScatterOf(config);
    for (uint32_t i = 0; i < kSamples; ++i) {
      CAPTURE(i);
      CHECK(scatter.measured[i] > 1e-5);
      CHECK(scatter.measured[i] < 1.15 * scatter.reported[i]);
      CHECK(scatter.measured[i] > 0.85 * scatter.reported[i]);
    }
  }
}

TEST_CASE("the tail has no variance where every neuron is active") {
  Config config = SmallConfig(50, kNeurons, kHidden);
  config.model.active = ActiveSet::kAll;
  OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
  ActiveQuery query;
  query.hidden = Matrix(1, kHidden);
  query.labels.EndRow();
  query.label_totals = {0};
  query.probe_samples = 5;
  OutputBatch batch;
  CHECK(layer.Query(query, {1}, &batch).tail_variance == std::vector<float>{0});
}

}  // namespace
}  // namespace dslide::tail_variance_test
