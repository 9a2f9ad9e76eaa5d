// The sparse backward pass: in the mean the gradients of the whole one, whoever owns the neurons.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/run/combine.h"
#include "server/model/output_layer.h"
#include "server/model/sparse_matrix.h"
#include "tests/server/support/test_batches.h"

namespace dslide::sparse_gradient_test {
namespace {

constexpr uint32_t kNeurons = 700, kHidden = 5, kSamples = 6;

Config SparseConfig(Loss loss, float sparsify, float smoothing = 0) {
  Config config = SmallConfig(50, kNeurons, kHidden);
  config.model.loss = loss;
  config.model.active = ActiveSet::kMass;
  config.model.negatives = kNeurons;  // all of them are drawn
  config.train.sparsify = sparsify;
  config.train.label_smoothing = smoothing;
  return config;
}

struct Gradients {
  std::vector<double> hidden;                    // [B x H]
  std::map<uint32_t, std::vector<double>> rows;  // neuron -> [H + 1], the bias last
  std::map<uint32_t, float> masses;
  size_t taken = 0;  // rows with a gradient
};

// Of one batch, over `shards` layers that share the neurons.
Gradients GradientsOf(const Config& config, uint32_t shards, uint64_t seed) {
  ActiveQuery query;
  Random random(4);
  query.hidden = Matrix(kSamples, kHidden);
  for (float& h : query.hidden.data) h = static_cast<float>(2 * random.Uniform());
  for (uint32_t i = 0; i < kSamples; ++i) {
    for (uint32_t label = 0; label < i % 4; ++label) query.labels.ids.push_back(100 * label + i);
    query.labels.EndRow();
    query.label_totals.push_back(i % 4);
  }
  const auto slots = DivideSlots(AllSlots(config), config.cluster, shards);
  std::vector<std::unique_ptr<OutputLayer>> layers;
  std::vector<OutputBatch> batches(shards);
  std::vector<ActiveReply> replies;
  for (uint32_t s = 0; s < shards; ++s) {
    layers.push_back(
        std::make_unique<OutputLayer>(config, slots[s], Purpose::kTraining, BestKernels()));
    layers[s]->layer().Initialise(5, 1.0f, kNeurons);
    replies.push_back(layers[s]->Query(query, {seed, kNeurons}, &batches[s]));
  }
  const std::vector<float> normalisers = LogNormaliser(MergeActive(replies));
  Gradients result;
  result.hidden.resize(query.hidden.data.size());
  for (uint32_t s = 0; s < shards; ++s) {
    const SlotMap& map = layers[s]->layer().map();
    const Matrix partial = InFloats(layers[s]->Gradient(
        &batches[s], normalisers, [&](uint32_t row, const float* g, float bias) {
          std::vector<double>& sum = result.rows[map.Global(row)];
          sum.assign(g, g + kHidden);
          sum.push_back(bias);
          ++result.taken;
        }));
    for (size_t k = 0; k < result.hidden.size(); ++k) result.hidden[k] += partial.data[k];
    for (size_t u = 0; u < batches[s].masses.size(); ++u) {
      result.masses[map.Global(batches[s].columns.rows[u])] = batches[s].masses[u];
    }
  }
  return result;
}

TEST_CASE("sparse gradients are those of all entries in the mean") {
  constexpr uint32_t kDraws = 1500;
  constexpr double kThreshold = 0.05, kLargest = 2;  // of an activation
  for (const auto& [loss, smoothing] :
       {std::pair{Loss::kSoftmax, 0.0f}, {Loss::kSoftmax, 0.3f}, {Loss::kSigmoid, 0.0f}}) {
    CAPTURE(static_cast<int>(loss));
    CAPTURE(smoothing);
    const Gradients whole = GradientsOf(SparseConfig(loss, 0, smoothing), 1, 1);
    CHECK(whole.rows.size() == kNeurons);
    std::vector<double> hidden(whole.hidden.size());
    std::map<uint32_t, std::vector<double>> rows;
    size_t taken = 0;
    for (uint32_t draw = 0; draw < kDraws; ++draw) {
      const Gradients sparse = GradientsOf(
          SparseConfig(loss, static_cast<float>(kThreshold), smoothing), 1, SubSeed(7, draw));
      for (size_t k = 0; k < hidden.size(); ++k) hidden[k] += sparse.hidden[k] / kDraws;
      for (const auto& [id, g] : sparse.rows) {
        rows[id].resize(kHidden + 1);
        for (size_t k = 0; k < g.size(); ++k) rows[id][k] += g[k] / kDraws;
      }
      taken += sparse.taken;
    }
    // An entry p / B scatters by at most kThreshold p / B^2 around it, so sums of them do. Here p
    // includes what smoothing subtracts.
    const auto scatter = [&](double probabilities, double largest) {
      return largest * std::sqrt(kThreshold * probabilities / kDraws) / kSamples + 1e-6;
    };
    double all = kSamples * smoothing;
    for (const auto& [id, mass] : whole.masses) all += mass * kSamples;
    for (size_t k = 0; k < hidden.size(); ++k) {
      const double largest_weight = 5;
      CHECK(std::abs(hidden[k] - whole.hidden[k]) < 6 * scatter(all, largest_weight));
    }
    for (const auto& [id, g] : whole.rows) {
      CAPTURE(id);
      rows[id].resize(kHidden + 1);
      const double probability = whole.masses.at(id) + smoothing / kNeurons;
      const double bound = 6 * scatter(probability * kSamples, kLargest);
      for (size_t k = 0; k < g.size(); ++k) CHECK(std::abs(rows[id][k] - g[k]) < bound);
    }
    if (loss == Loss::kSoftmax) CHECK(taken < kDraws * kNeurons / 3);
  }
}

TEST_CASE("label smoothing is subtracted from a label once") {
  constexpr float kSmoothing = 0.99f;
  constexpr uint32_t kLabel = 1, kDraws = 4000;  // of sample 1
  const double whole =
      GradientsOf(SparseConfig(Loss::kSoftmax, 0, kSmoothing), 1, 1).rows[kLabel].back();
  double mean = 0;
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    auto sparse = GradientsOf(SparseConfig(Loss::kSoftmax, 0.01f, kSmoothing), 1, SubSeed(7, draw));
    if (const auto& g = sparse.rows[kLabel]; !g.empty()) mean += g.back() / kDraws;
  }
  CHECK(mean == doctest::Approx(whole).epsilon(0.04));
}

TEST_CASE("masses are measured before targets are subtracted and entries chosen") {
  const Gradients whole = GradientsOf(SparseConfig(Loss::kSoftmax, 0), 1, 1);
  REQUIRE(whole.masses.size() == kNeurons);
  for (const float sparsify : {0.0f, 0.05f}) {
    const Gradients smooth = GradientsOf(SparseConfig(Loss::kSoftmax, sparsify, 0.3f), 1, 1);
    const Gradients sparse = GradientsOf(SparseConfig(Loss::kSoftmax, sparsify), 1, 1);
    for (const auto& [id, mass] : whole.masses) {
      CHECK(sparse.masses.at(id) == doctest::Approx(mass).epsilon(1e-5));
      CHECK(smooth.masses.at(id) == doctest::Approx(mass).epsilon(1e-5));
    }
  }
}

TEST_CASE("which entries are left does not depend on who owns the neurons") {
  // Also of owners that have less active rows than a sparse pass of one owner needs.
  constexpr float kThreshold = 0.04f;
  for (const uint32_t owners : {3u, 8u}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Gradients one = GradientsOf(SparseConfig(Loss::kSoftmax, kThreshold), 1, seed);
      const Gradients many = GradientsOf(SparseConfig(Loss::kSoftmax, kThreshold), owners, seed);
      REQUIRE(one.rows.size() == many.rows.size());
      for (const auto& [id, g] : one.rows) {
        for (size_t k = 0; k < g.size(); ++k) {
          CHECK(many.rows.at(id)[k] == doctest::Approx(g[k]).epsilon(1e-4));
        }
      }
      for (size_t k = 0; k < one.hidden.size(); ++k) {
        CHECK(many.hidden[k] == doctest::Approx(one.hidden[k]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("a mass that changes is in the next checkpoint, also without a gradient") {
  const Config config = SparseConfig(Loss::kSoftmax, 0.05f);
  OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
  ChangedRows& changed = layer.layer().changed();
  changed.Forget();
  const uint32_t row = layer.layer().map().Local(17);
  layer.ObserveMass(row, 0.5f);
  changed.Mark([](uint32_t, std::vector<uint8_t>*) {});
  std::vector<uint8_t> bytes;
  CHECK(changed.Write(0, layer.layer().map().rows(), &bytes) == row);
}

TEST_CASE("a sparse matrix is transposed in order") {
  SparseMatrix matrix;
  matrix.Append(2, 1.0f);
  matrix.Append(0, 2.0f);
  matrix.EndRow();
  matrix.EndRow();
  matrix.Append(2, 3.0f);
  matrix.EndRow();
  SparseMatrix transposed;
  Transpose(matrix, matrix.columns, 4, &transposed);
  CHECK(transposed.offsets == std::vector<uint32_t>{0, 1, 1, 3, 3});
  CHECK(transposed.columns == std::vector<uint32_t>{0, 0, 2});
  CHECK(transposed.values == std::vector<float>{2, 1, 3});
  Transpose(SparseMatrix(), {}, 2, &transposed);
  CHECK(transposed.offsets == std::vector<uint32_t>{0, 0, 0});
  CHECK(transposed.columns.empty());
}

}  // namespace
}  // namespace dslide::sparse_gradient_test
