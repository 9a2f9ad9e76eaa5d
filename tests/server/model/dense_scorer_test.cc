// Every sample against every column, in fp32 and with bf16 products, compared with the definition
// (scorer_model.h).
#include "server/model/dense_scorer.h"

#include <doctest/doctest.h>

#include <functional>

#include "common/math/int8/int8_scan.h"
#include "server/model/output_layer.h"
#include "tests/server/model/scorer_model.h"

namespace dslide::dense_scorer_test {
namespace {

constexpr uint32_t kLabels = 700, kHidden = 24;
constexpr double kFloatShare = 1e-6;
constexpr double kBf16Share = 0x1p-7;  // two operands, each rounded to nearest: 2 * 2^-9, doubled

Config DenseConfig(Loss loss, float smoothing) {
  Config config = SmallConfig(50, kLabels, kHidden);
  config.model.loss = loss;
  config.model.sharing = Sharing::kBatch;
  config.model.active = ActiveSet::kMass;
  config.train.label_smoothing = smoothing;
  return config;
}

// `width` columns of which about a half are drawn; labels on both sides of the chunks' boundaries.
void SetBatchOf(size_t width, ScorerModel* model) {
  Random random(width);
  std::vector<uint32_t> rows = model->rows();
  for (size_t i = rows.size() - 1; i > 0; --i) std::swap(rows[i], rows[random.Below(i + 1)]);
  rows.resize(width);
  const size_t labels = std::min<size_t>((width + 1) / 2, 270);
  const auto part = [&](size_t begin, size_t end) {
    return std::vector(rows.begin() + static_cast<ptrdiff_t>(begin),
                       rows.begin() + static_cast<ptrdiff_t>(end));
  };
  std::vector<ScorerSample> samples = {
      {{rows[0]}, {}}, {part(0, labels), {}, 3}, {{}, {}, 1}, {{}, {}}, {{rows[labels - 1]}, {}}};
  std::vector<uint32_t> draws = part(labels, width);
  draws.push_back(rows[0]);  // a draw that is a label stands for itself
  model->SetBatch(std::move(samples), draws, false);
}

constexpr size_t kWidths[] = {1, 2, 255, 256, 257, 512, 513, 600};

void ForEachBatch(const std::function<void(const Config&, ScorerModel*)>& check) {
  ForEachLoss(kLabels, kHidden, Sharing::kBatch, [&](const Config& config) {
    for (const size_t width : kWidths) {
      CAPTURE(width);
      ScorerModel model(config, {0, 1, 2, 3, 4, 5, 6, 7});
      SetBatchOf(width, &model);
      check(config, &model);
    }
  });
}

TEST_CASE("dense scorer at every chunk boundary") {
  ForEachBatch([](const Config& config, ScorerModel* model) {
    for (const double others : {0.0, 0.7}) {
      const std::vector<double> normalisers = model->LogNormalisers(others);
      model->Check(model->Run(config, normalisers), normalisers, kFloatShare);
    }
  });
}

TEST_CASE("dense scorer with rounded products is as far off as the rounding explains") {
  ForEachBatch([](Config config, ScorerModel* model) {
    const std::vector<double> normalisers = model->LogNormalisers(0.7);
    const ScorerResult exact = model->Run(config, normalisers);
    config.model.products = Products::kBf16;
    const ScorerResult rounded = model->Run(config, normalisers);
    model->Check(rounded, normalisers, kBf16Share);
    CHECK(rounded.reply.active == exact.reply.active);
    // Where neither bf16 nor int8 products are faster, they are not made.
    const bool same = rounded.hidden_gradient == exact.hidden_gradient;
    CHECK(same == (BestBf16Gemm() == nullptr && BestInt8Scan().name == "scalar"));
  });
}

TEST_CASE("dense scorer on bf16 rows, with products in either precision") {
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    for (const Products products : {Products::kFp32, Products::kBf16}) {
      for (const size_t width : kWidths) {
        CAPTURE(static_cast<int>(loss));
        CAPTURE(static_cast<int>(products));
        CAPTURE(width);
        Config config = DenseConfig(loss, 0.1f);
        config.model.precision = Precision::kBf16;
        config.model.products = products;
        ScorerModel model(config, {0, 1, 2, 3, 4, 5, 6, 7});
        SetBatchOf(width, &model);
        const std::vector<double> normalisers = model.LogNormalisers(0.7);
        // Updated weights lie one ulp from the exact ones.
        model.Check(model.Run(config, normalisers), normalisers,
                    products == Products::kFp32 ? kFloatShare : kBf16Share, 0x1p-7);
      }
    }
  }
}

TEST_CASE("dense scorer: a batch without columns") {
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    const Config config = DenseConfig(loss, 0.1f);
    ScorerModel model(config, {0, 3});
    model.SetBatch({{{}, {}, 1}, {{}, {}}}, {}, false);
    const std::vector<double> normalisers = model.LogNormalisers(0.7);
    model.Check(model.Run(config, normalisers), normalisers, kFloatShare);
  }
}

TEST_CASE("dense scorer: buffers of a larger batch do not show in a smaller one after it") {
  Config config = DenseConfig(Loss::kSoftmax, 0.1f);
  for (const Products products : {Products::kFp32, Products::kBf16}) {
    config.model.products = products;
    const auto query = [&](uint32_t samples) {
      Random random(samples);
      ActiveQuery q;
      q.hidden = Matrix(samples, kHidden);
      for (float& h : q.hidden.data) h = static_cast<float>(random.Uniform());
      for (uint32_t i = 0; i < samples; ++i) {
        q.labels.ids.push_back(static_cast<uint32_t>(random.Below(kLabels)));
        q.labels.EndRow();
        q.label_totals.push_back(1);
      }
      return q;
    };
    OutputLayer used(config, AllSlots(config), Purpose::kTraining, BestKernels());
    OutputLayer fresh(config, AllSlots(config), Purpose::kTraining, BestKernels());
    used.layer().Initialise(5, 0.6f, kLabels);
    fresh.layer().Initialise(5, 0.6f, kLabels);
    OutputBatch used_batch, fresh_batch;
    (void)used.Query(query(40), {1, 400}, &used_batch);
    const auto ignore = [](uint32_t, const float*, float) {};
    (void)used.Gradient(&used_batch, std::vector<float>(40, 6.0f), ignore);
    CHECK(used.Query(query(3), {2, 400}, &used_batch) ==
          fresh.Query(query(3), {2, 400}, &fresh_batch));
    CHECK(used.Gradient(&used_batch, {6.0f, 6.0f, 6.0f}, ignore) ==
          fresh.Gradient(&fresh_batch, {6.0f, 6.0f, 6.0f}, ignore));
  }
}

}  // namespace
}  // namespace dslide::dense_scorer_test
