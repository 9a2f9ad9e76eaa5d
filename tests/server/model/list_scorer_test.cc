// Each sample against its own columns, compared with the definition (scorer_model.h).
#include "server/model/list_scorer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/math/kernels.h"
#include "common/run/combine.h"
#include "server/model/output_layer.h"
#include "tests/server/model/scorer_model.h"
#include "tests/server/support/test_batches.h"

namespace dslide::list_scorer_test {
namespace {

constexpr uint32_t kLabels = 45, kHidden = 6;
constexpr double kFloatShare = 1e-6;

Config ListConfig(Loss loss, Tail tail, float smoothing) {
  Config config = SmallConfig(50, kLabels, kHidden);
  config.model.loss = loss;
  config.model.tail = tail;
  config.model.sharing = Sharing::kSample;
  config.model.active = ActiveSet::kSampled;
  config.train.label_smoothing = smoothing;
  return config;
}

void ForEachLoss(const std::function<void(const Config&)>& check) {
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    for (const Tail tail : {Tail::kWeighted, Tail::kNone}) {
      for (const float smoothing : {0.0f, 0.2f}) {
        CAPTURE(static_cast<int>(loss));
        CAPTURE(static_cast<int>(tail));
        CAPTURE(smoothing);
        check(ListConfig(loss, tail, smoothing));
      }
    }
  }
}

// Three of eight slots live here: 17 neurons in 18 rows.
void CheckCase(const Config& config, const std::function<void(ScorerModel*)>& set_batch) {
  ScorerModel model(config, {1, 4, 6});
  REQUIRE(model.rows().size() == 17);
  set_batch(&model);
  for (const double others : {0.0, 0.7}) {
    const std::vector<double> normalisers = model.LogNormalisers(others);
    model.Check(model.Run(config, normalisers), normalisers, kFloatShare);
  }
}

TEST_CASE("list scorer: labels, hits and draws that overlap in every way") {
  ForEachLoss([](const Config& config) {
    CheckCase(config, [](ScorerModel* model) {
      const std::vector<uint32_t>& r = model->rows();
      // 2: label of the first and hit of the second, drawn; 3: drawn label; 5: hit and label of one
      // sample; 6: hit that is drawn; 7: hit of two; 8: label of two.
      model->SetBatch({{{r[2], r[3], r[8]}, {r[6], r[7]}},
                       {{r[8], r[5]}, {r[5], r[2], r[7]}},
                       {{}, {r[9]}, 2},
                       {{r[1]}, {}, 1}},
                      {}, {r[2], r[3], r[6], r[10], r[11], r[16]}, true);
    });
  });
}

TEST_CASE("list scorer: samples without labels anywhere") {
  ForEachLoss([](const Config& config) {
    CheckCase(config, [](ScorerModel* model) {
      const std::vector<uint32_t>& r = model->rows();
      model->SetBatch({{{}, {r[0], r[3]}}, {{r[4]}, {}}, {{}, {}}}, {}, {r[3], r[5], r[4]}, true);
    });
    if (config.model.loss == Loss::kSigmoid) return;
    // Under softmax they have no gradient at all, and move no row.
    ScorerModel model(config, {1, 4, 6});
    const std::vector<uint32_t>& r = model.rows();
    model.SetBatch({{{}, {r[0], r[3]}}, {{}, {}}}, {}, {r[3], r[5]}, true);
    const ScorerResult result = model.Run(config, model.LogNormalisers(0.5));
    for (const float d : result.hidden_gradient.data) CHECK(d == 0.0f);
  });
}

TEST_CASE("list scorer: a sample without any column, and a batch without") {
  ForEachLoss([](const Config& config) {
    for (const bool all : {false, true}) {
      CheckCase(config, [&](ScorerModel* model) {
        const std::vector<uint32_t>& r = model->rows();
        std::vector<ScorerSample> samples = {{{}, {}, 1}, {{}, {}}};
        if (!all) samples.push_back({{r[7]}, {r[1]}});
        model->SetBatch(samples, {}, {}, true);
      });
    }
  });
}

TEST_CASE("list scorer: own columns and no draws, all draws own") {
  ForEachLoss([](const Config& config) {
    CheckCase(config, [](ScorerModel* model) {
      const std::vector<uint32_t>& r = model->rows();
      model->SetBatch({{{r[2]}, {r[6]}}, {{r[2], r[5]}, {r[2]}}}, {}, {}, true);
    });
    CheckCase(config, [](ScorerModel* model) {
      const std::vector<uint32_t>& r = model->rows();
      model->SetBatch({{{r[2]}, {r[6]}}, {{r[2]}, {r[3]}}}, {}, {r[2]}, true);
    });
  });
}

TEST_CASE("list scorer: every neuron drawn") {
  ForEachLoss([](const Config& config) {
    CheckCase(config, [](ScorerModel* model) {
      const std::vector<uint32_t>& r = model->rows();
      model->SetBatch({{{r[2], r[4]}, {r[6]}}, {{r[5]}, {r[2]}}, {{}, {}, 1}}, {}, r, true);
    });
  });
}

TEST_CASE("list scorer: random batches, larger than any prefetch or vector") {
  Random random(6);
  ForEachLoss([&](const Config& config) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      CheckCase(config, [&](ScorerModel* model) {
        const auto some = [&](uint64_t one_in) {
          std::vector<uint32_t> rows;
          for (const uint32_t row : model->rows()) {
            if (random.Below(one_in) == 0) rows.push_back(row);
          }
          return rows;
        };
        std::vector<ScorerSample> samples;
        for (int i = 0; i < 19; ++i) {
          samples.push_back({some(6), some(4), static_cast<uint32_t>(random.Below(2))});
        }
        model->SetBatch(samples, {}, some(3), true);
      });
    }
  });
}

TEST_CASE("list scorer on bf16 rows and with bf16 products asked for") {
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    Config config = ListConfig(loss, Tail::kWeighted, 0.1f);
    config.model.precision = Precision::kBf16;
    config.model.products = Products::kBf16;  // lists are products of rows, always in fp32
    ScorerModel model(config, {1, 4, 6});
    const std::vector<uint32_t>& r = model.rows();
    model.SetBatch({{{r[2], r[3]}, {r[6]}}, {{r[8]}, {r[2], r[7]}}}, {}, {r[2], r[10], r[11]},
                   true);
    const std::vector<double> normalisers = model.LogNormalisers(0.3);
    const ScorerResult result = model.Run(config, normalisers);
    // Logits and dL/dh are exact in bf16 weights; updated weights lie one ulp from the exact ones.
    model.Check(result, normalisers, kFloatShare, 0x1p-7);
  }
}

Config OutputConfig(Loss loss, Tail tail, float smoothing, ActiveSet active) {
  Config config = ListConfig(loss, tail, smoothing);
  config.model.active = active;
  config.model.uniform = kLabels;
  return config;
}

TEST_CASE("list scorer with every neuron drawn equals the dense scorer with active = all") {
  ForEachLoss([](const Config& given) {
    const auto run = [&](ActiveSet active, ActiveReply* reply, Matrix* partial) {
      const Config config =
          OutputConfig(given.model.loss, given.model.tail, LabelSmoothing(given.train), active);
      const std::vector<SlotId> slots = {{0}, {2}, {3}, {7}};
      OutputLayer layer(config, slots, Purpose::kTraining, BestKernels());
      layer.layer().Initialise(5, 0.6f, kLabels);
      Random random(8);
      ActiveQuery query;
      query.hidden = Matrix(4, kHidden);
      for (float& h : query.hidden.data) h = static_cast<float>(random.Uniform());
      for (const std::vector<uint32_t>& labels :
           std::vector<std::vector<uint32_t>>{{2, 11, 40}, {}, {3}, {5, 8}}) {
        query.labels.ids.insert(query.labels.ids.end(), labels.begin(), labels.end());
        query.labels.EndRow();
        query.label_totals.push_back(static_cast<uint32_t>(labels.size()));
      }
      OutputBatch batch;
      *reply = layer.Query(query, {1}, &random, &batch);
      const std::vector<float> normaliser = {4.0f, 4.1f, 3.9f, 4.2f};
      const auto update = [&](uint32_t row, const float* g, float bias) {
        layer.Update(row, 1.0f, g, bias);
      };
      *partial = InFloats(layer.Gradient(&batch, normaliser, update));
      std::vector<float> weights;
      for (uint32_t id = 0; id < kLabels; ++id) {
        const uint32_t row = layer.layer().map().Local(id);
        if (row == SlotMap::kNone) continue;
        weights.insert(weights.end(), layer.layer().weights(row),
                       layer.layer().weights(row) + kHidden);
        weights.push_back(layer.layer().bias(row));
      }
      return weights;
    };
    ActiveReply sampled, all;
    Matrix sampled_partial, all_partial;
    const std::vector<float> a = run(ActiveSet::kSampled, &sampled, &sampled_partial);
    const std::vector<float> b = run(ActiveSet::kAll, &all, &all_partial);
    CHECK(sampled.active == all.active);
    CHECK(sampled.active_rows == all.active_rows);
    const auto near = [](const std::vector<float>& x, const std::vector<float>& y) {
      return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](float p, float q) {
        return std::abs(p - q) < 3e-6f * (1 + std::abs(q));
      });
    };
    CHECK(near(sampled.max, all.max));
    CHECK(near(sampled.sum_exp, all.sum_exp));
    CHECK(near(sampled.target_logit, all.target_logit));
    CHECK(near(sampled.loss, all.loss));
    CHECK(near(sampled_partial.data, all_partial.data));
    CHECK(near(a, b));
  });
}

TEST_CASE("list scorer measures the mass of what all samples were scored against") {
  for (const float smoothing : {0.0f, 0.2f}) {
    CAPTURE(smoothing);
    Config config = OutputConfig(Loss::kSoftmax, Tail::kWeighted, smoothing, ActiveSet::kLsh);
    config.model.negatives = kLabels / 2;
    config.hash.k = 1;
    OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
    layer.layer().Initialise(5, 0.6f, kLabels);
    layer.tables()->CatchUp();
    Random random(8);
    ActiveQuery query;
    query.hidden = Matrix(3, kHidden);
    for (float& h : query.hidden.data) h = static_cast<float>(random.Uniform());
    query.labels.ids = {2, 11, 3};
    query.labels.offsets = {0, 2, 3, 3};
    query.label_totals = {2, 1, 1};  // the last one's label is elsewhere
    OutputBatch batch;
    (void)layer.Query(query, {1, config.model.negatives}, &random, &batch);
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
  config.model.uniform = 20;
  OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
  layer.layer().Initialise(5, 0.6f, 20);
  ActiveQuery query;
  query.hidden = Matrix(2, 4);
  for (float& h : query.hidden.data) h = 1.0f;
  query.labels.ids = {3, 7, 7};
  query.labels.offsets = {0, 1, 3};
  query.label_totals = {1, 2};
  OutputBatch batch;
  Random random(1);
  (void)layer.Query(query, {1}, &random, &batch);
  return InFloats(layer.Gradient(&batch, {3.0f, 3.0f}, [](uint32_t, const float*, float) {}));
}

TEST_CASE("a label named twice is no other neuron's target") {
  const Matrix list = GradientOfRepeatedLabel(ActiveSet::kSampled);
  const Matrix dense = GradientOfRepeatedLabel(ActiveSet::kAll);
  for (size_t k = 0; k < list.data.size(); ++k) {
    CHECK(list.data[k] == doctest::Approx(dense.data[k]).epsilon(1e-4));
  }
}

}  // namespace
}  // namespace dslide::list_scorer_test
