// Each sample against its own columns, compared with the definition (scorer_model.h).
#include "server/model/list_scorer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/math/kernels.h"
#include "common/run/combine.h"
#include "server/model/output_layer.h"
#include "tests/server/model/scorer_model.h"
#include "tests/server/support/test_batches.h"

namespace dslide::list_scorer_test {
namespace {

constexpr uint32_t kLabels = 45, kHidden = 6;
constexpr double kFloatShare = 1e-6;

Config ListConfig(Loss loss, float smoothing) {
  Config config = SmallConfig(50, kLabels, kHidden);
  config.model.loss = loss;
  config.model.sharing = Sharing::kSample;
  config.model.active = ActiveSet::kLsh;
  config.train.label_smoothing = smoothing;
  return config;
}

// Three of eight slots live here: 17 neurons in 18 rows.
void CheckCase(const Config& config, const std::vector<ScorerSample>& samples,
               const std::vector<uint32_t>& draws) {
  ScorerModel model(config, {1, 4, 6});
  model.SetBatch(samples, draws, true);
  for (const double others : {0.0, 0.7}) {
    const std::vector<double> normalisers = model.LogNormalisers(others);
    model.Check(model.Run(config, normalisers), normalisers, kFloatShare);
  }
}

std::vector<uint32_t> RowsHere(const Config& config) {
  std::vector<uint32_t> rows = ScorerModel(config, {1, 4, 6}).rows();
  REQUIRE(rows.size() == 17);
  return rows;
}

TEST_CASE("list scorer: labels, hits and draws that overlap in every way, or are missing") {
  ForEachLoss(kLabels, kHidden, Sharing::kSample, [](const Config& config) {
    const std::vector<uint32_t> r = RowsHere(config);
    // 2: label of the first and hit of the second, drawn; 3: drawn label; 5: hit and label of one
    // sample; 6: hit that is drawn; 7: hit of two; 8: label of two.
    CheckCase(config,
              {{{r[2], r[3], r[8]}, {r[6], r[7]}},
               {{r[8], r[5]}, {r[5], r[2], r[7]}},
               {{}, {r[9]}, 2},
               {{r[1]}, {}, 1}},
              {r[2], r[3], r[6], r[10], r[11], r[16]});
    // Samples without labels anywhere, and without any column; no sample has one.
    CheckCase(config, {{{}, {r[0], r[3]}}, {{r[4]}, {}}, {{}, {}}}, {r[3], r[5], r[4]});
    CheckCase(config, {{{}, {}, 1}, {{}, {}}, {{r[7]}, {r[1]}}}, {});
    CheckCase(config, {{{}, {}, 1}, {{}, {}}}, {});
    // Own columns and no draws, all draws own, every neuron drawn.
    CheckCase(config, {{{r[2]}, {r[6]}}, {{r[2], r[5]}, {r[2]}}}, {});
    CheckCase(config, {{{r[2]}, {r[6]}}, {{r[2]}, {r[3]}}}, {r[2]});
    CheckCase(config, {{{r[2], r[4]}, {r[6]}}, {{r[5]}, {r[2]}}, {{}, {}, 1}}, r);
  });
}

TEST_CASE("list scorer: under softmax samples without labels have no gradient at all") {
  const Config config = ListConfig(Loss::kSoftmax, 0.2f);
  ScorerModel model(config, {1, 4, 6});
  const std::vector<uint32_t>& r = model.rows();
  model.SetBatch({{{}, {r[0], r[3]}}, {{}, {}}}, {r[3], r[5]}, true);
  const ScorerResult result = model.Run(config, model.LogNormalisers(0.5));
  for (const float d : result.hidden_gradient.data) CHECK(d == 0.0f);
}

TEST_CASE("list scorer: random batches, larger than any prefetch or vector") {
  Random random(6);
  ForEachLoss(kLabels, kHidden, Sharing::kSample, [&](const Config& config) {
    const std::vector<uint32_t> rows = RowsHere(config);
    const auto some = [&](uint64_t one_in) {
      std::vector<uint32_t> chosen;
      for (const uint32_t row : rows) {
        if (random.Below(one_in) == 0) chosen.push_back(row);
      }
      return chosen;
    };
    for (int repeat = 0; repeat < 10; ++repeat) {
      std::vector<ScorerSample> samples;
      for (int i = 0; i < 19; ++i) {
        samples.push_back({some(6), some(4), static_cast<uint32_t>(random.Below(2))});
      }
      CheckCase(config, samples, some(3));
    }
  });
}

TEST_CASE("list scorer on bf16 rows and with bf16 products asked for") {
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    Config config = ListConfig(loss, 0.1f);
    config.model.precision = Precision::kBf16;
    config.model.products = Products::kBf16;  // lists are products of rows, always in fp32
    ScorerModel model(config, {1, 4, 6});
    const std::vector<uint32_t>& r = model.rows();
    model.SetBatch({{{r[2], r[3]}, {r[6]}}, {{r[8]}, {r[2], r[7]}}}, {r[2], r[10], r[11]}, true);
    const std::vector<double> normalisers = model.LogNormalisers(0.3);
    const ScorerResult result = model.Run(config, normalisers);
    // Logits and dL/dh are exact in bf16 weights; updated weights lie one ulp from the exact ones.
    model.Check(result, normalisers, kFloatShare, 0x1p-7);
  }
}

TEST_CASE("list scorer measures the mass of what all samples were scored against") {
  for (const float smoothing : {0.0f, 0.2f}) {
    CAPTURE(smoothing);
    Config config = ListConfig(Loss::kSoftmax, smoothing);
    config.hash.k = 1;
    config.model.negatives = kLabels / 2;
    OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
    layer.layer().Initialise(5, 0.6f, kLabels);
    layer.index()->tables().CatchUp();
    Random random(8);
    ActiveQuery query;
    query.hidden = Matrix(3, kHidden);
    for (float& h : query.hidden.data) h = static_cast<float>(random.Uniform());
    query.labels.ids = {2, 11, 3};
    query.labels.offsets = {0, 2, 3, 3};
    query.label_totals = {2, 1, 1};  // the last one's label is elsewhere
    OutputBatch batch;
    (void)layer.Query(query, {1, config.model.negatives}, &batch);
    const std::vector<float> normaliser = {4.0f, 4.1f, 3.9f};
    (void)layer.Gradient(&batch, normaliser, [](uint32_t, const float*, float) {});
    const ActiveColumns& columns = batch.columns;
    REQUIRE(batch.masses.size() == columns.rows.size());
    uint32_t measured = 0;
    for (size_t u = 0; u < columns.rows.size(); ++u) {
      const uint32_t row = columns.rows[u];
      const uint32_t id = layer.layer().map().Global(row);
      double mass = 0;
      for (uint32_t i = 0; i < 3; ++i) {
        const auto labels = query.labels.Ids(i);
        if (std::ranges::find(labels, id) != labels.end()) continue;
        double logit = layer.layer().bias(row);
        for (uint32_t d = 0; d < kHidden; ++d) {
          logit += double{layer.layer().weights(row)[d]} * double{query.hidden.row(i)[d]};
        }
        mass += std::exp(logit - double{normaliser[i]}) / 3;
      }
      if (columns.drawn[u]) CHECK(batch.masses[u] == doctest::Approx(mass).epsilon(1e-4));
      if (!columns.drawn[u]) CHECK(batch.masses[u] == kNoMass);
      measured += columns.drawn[u];
    }
    CHECK(measured > 10);
    CHECK(measured < columns.rows.size());
  }
}

// The reader refuses it, but a message may hold it.
Matrix GradientOfRepeatedLabel(ActiveSet active) {
  Config config = SmallConfig(50, 20, 4);
  config.model.active = active;
  config.model.sharing = Sharing::kSample;
  config.hash.k = 1;
  OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
  layer.layer().Initialise(5, 0.6f, 20);
  if (layer.index() != nullptr) layer.index()->tables().CatchUp();
  ActiveQuery query;
  query.hidden = Matrix(2, 4);
  for (float& h : query.hidden.data) h = 1.0f;
  query.labels.ids = {3, 7, 7};
  query.labels.offsets = {0, 1, 3};
  query.label_totals = {1, 2};
  OutputBatch batch;
  (void)layer.Query(query, {1, 20}, &batch);
  return InFloats(layer.Gradient(&batch, {3.0f, 3.0f}, [](uint32_t, const float*, float) {}));
}

TEST_CASE("a label named twice is no other neuron's target") {
  const Matrix list = GradientOfRepeatedLabel(ActiveSet::kLsh);
  const Matrix dense = GradientOfRepeatedLabel(ActiveSet::kAll);
  for (size_t k = 0; k < list.data.size(); ++k) {
    CHECK(list.data[k] == doctest::Approx(dense.data[k]).epsilon(1e-4));
  }
}

}  // namespace
}  // namespace dslide::list_scorer_test
