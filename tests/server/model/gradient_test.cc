// Gradients against central finite differences of losses written here, in double.
#include <cmath>
#include <functional>

#include "tests/server/model/output_model.h"
#include "tests/server/support/dense_copy.h"
#include "tests/server/support/local_cluster.h"

namespace dslide::gradient_test {
namespace {

constexpr uint32_t kLabels = 30, kHidden = 6;
constexpr double kStep = 1e-5;

double Numeric(std::vector<double> x, size_t k,
               const std::function<double(const std::vector<double>&)>& f) {
  const double at = x[k];
  x[k] = at + kStep;
  const double above = f(x);
  x[k] = at - kStep;
  return (above - f(x)) / (2 * kStep);
}

void CheckOutputGradients(const Config& config, uint32_t shards,
                          const std::vector<float>& weights = {}) {
  OutputModel model(config, shards, weights);
  const std::vector<double> w = model.Parameters();
  const std::vector<double> h = model.Hidden();
  const Matrix dh = model.Step();
  const std::vector<double> after = model.Parameters();
  double error_h = 0, error_w = 0, largest = 0;
  for (size_t k = 0; k < h.size(); ++k) {
    const double numeric = Numeric(h, k, [&](const auto& x) { return model.Loss(w, x); });
    error_h = std::max(error_h, std::abs(dh.data[k] - numeric));
  }
  for (size_t k = 0; k < w.size(); ++k) {
    const double numeric = Numeric(w, k, [&](const auto& x) { return model.Loss(x, h); });
    error_w = std::max(error_w, std::abs(w[k] - after[k] - numeric));
    largest = std::max(largest, std::abs(numeric));
  }
  CHECK(largest > 0.05);
  CHECK(error_h < 3e-5);  // scalar kernels add in one long row
  CHECK(error_w < 1e-5);
}

Config OutputConfig(Loss loss, Sharing sharing, ActiveSet active) {
  Config config = SmallConfig(50, kLabels, kHidden);
  config.model.loss = loss;
  config.model.sharing = sharing;
  config.model.active = active;
  config.model.candidates = 4;
  config.model.negatives = 14;
  config.hash.k = 1;
  config.hash.tables = 6;
  return config;
}

void ForEachVariant(const std::function<void(const Config&)>& check) {
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    for (const Sharing sharing : {Sharing::kBatch, Sharing::kSample}) {
      for (const ActiveSet active : {ActiveSet::kAll, ActiveSet::kLsh, ActiveSet::kMass}) {
        if (active == ActiveSet::kMass && sharing == Sharing::kSample) continue;
        CAPTURE(static_cast<int>(loss));
        CAPTURE(static_cast<int>(sharing));
        CAPTURE(static_cast<int>(active));
        check(OutputConfig(loss, sharing, active));
      }
    }
  }
}

TEST_CASE("output gradients of every loss, sharing and active set are the loss's slopes") {
  const std::vector<float> weights = {2.0f, 0.25f, 0.0f, 1.5f, 3.0f};
  for (const float smoothing : {0.0f, 0.2f}) {
    for (const bool weighted : {false, true}) {
      CAPTURE(smoothing);
      CAPTURE(weighted);
      ForEachVariant([&](Config config) {
        config.train.label_smoothing = smoothing;
        for (const uint32_t shards : {1u, 2u}) {
          CheckOutputGradients(config, shards, weighted ? weights : std::vector<float>());
        }
      });
    }
  }
}

TEST_CASE("output gradients hold when the active set spans several chunks") {
  Config config = SmallConfig(50, 1300, 4);
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    config.model.loss = loss;
    CheckOutputGradients(config, 1);
  }
}

// The whole network: embeddings, hidden bias and neurons, through one step of SGD with rate 1.
void CheckNetworkGradients(const Config& config, const std::vector<uint32_t>& executors) {
  LocalCluster cluster(config, 100, executors);
  DenseNetwork network = CopyOf(&cluster);
  Random random(21);
  const LeaseBatch batch = RandomBatch(config, 7, 2, &random);
  cluster.Train(batch, 0);
  const DenseNetwork trained = CopyOf(&cluster);
  double worst = 0, largest = 0;
  const auto check = [&](std::vector<DenseRow>* rows, const std::vector<DenseRow>& after,
                         bool has_bias) {
    for (size_t id = 0; id < rows->size(); ++id) {
      std::vector<double>& w = (*rows)[id].w;
      const std::vector<double> before = w;
      for (size_t j = 0; j < before.size(); ++j) {
        const bool unused = !has_bias && j + 1 == before.size();
        const double numeric = unused ? 0 : Numeric(before, j, [&](const auto& x) {
          w = x;
          return network.LossSum(config, batch) / 7;
        });
        w = before;
        worst = std::max(worst, std::abs(before[j] - after[id].w[j] - numeric));
        largest = std::max(largest, std::abs(numeric));
      }
    }
  };
  check(&network.input, trained.input, false);
  check(&network.output, trained.output, true);
  CHECK(largest > 0.05);
  CHECK(worst < 1e-5);
}

// None, narrower than the first layer, wider (several rows a unit), and of the same width.
TEST_CASE("one step of SGD moves every parameter of a network by its slope") {
  for (const std::vector<uint32_t>& dense :
       std::vector<std::vector<uint32_t>>{{}, {5}, {3}, {13}, {12, 4}, {4, 11, 6}}) {
    CAPTURE(dense.size());
    Config config = SmallConfig(14, 10, 5);
    config.model.dense = dense;
    config.model.input_init = 1.0f;
    for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
      config.model.loss = loss;
      CheckNetworkGradients(config, {1});
      CheckNetworkGradients(config, {1, 2});
    }
  }
}

}  // namespace
}  // namespace dslide::gradient_test
