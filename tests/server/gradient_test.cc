// Gradients against central finite differences of losses written here, in double.
#include <cmath>
#include <functional>
#include <set>

#include "common/net/combine.h"
#include "tests/server/dense_network.h"
#include "tests/server/local_cluster.h"

namespace dslide {
namespace {

constexpr uint32_t kLabels = 30, kHidden = 6, kSamples = 5;
constexpr double kStep = 1e-5;

// What a sample is scored against: neuron -> how many neurons it stands for.
using Weights = std::map<uint32_t, double>;

// Output layers that share the neurons, and the loss on the active sets that they chose.
class OutputModel {
 public:
  OutputModel(const Config& config, uint32_t shards) : config_(config), random_(3) {
    const std::vector<SlotId> slots = AllSlots(config);
    for (uint32_t s = 0; s < shards; ++s) {
      const size_t begin = s * slots.size() / shards;
      const size_t end = (s + 1) * slots.size() / shards;
      layers_.push_back(std::make_unique<OutputLayer>(
          config, std::span(slots).subspan(begin, end - begin), Purpose::kTraining, BestKernels()));
      layers_[s]->layer().Initialise(5, 0.6f, config.model.labels);
      for (uint32_t n = 0; n < config.model.labels; ++n) {
        const uint32_t row = layers_[s]->layer().map().Local(n);
        if (row == SlotMap::kNone) continue;
        layers_[s]->layer().row(row).scalars->bias = static_cast<float>(0.3 * random_.Normal());
      }
      layers_[s]->RehashAll();
    }
    query_.hidden = Matrix(kSamples, config.model.hidden);
    for (float& h : query_.hidden.data) {
      h = std::max(0.0f, static_cast<float>(random_.Normal() + 0.5));
    }
    // The fourth sample has no labels.
    for (uint32_t i = 0; i < kSamples; ++i) {
      std::set<uint32_t> labels;
      while (labels.size() < (i == 3 ? 0 : 1 + i % 3)) {
        labels.insert(static_cast<uint32_t>(random_.Below(config.model.labels)));
      }
      query_.labels.ids.insert(query_.labels.ids.end(), labels.begin(), labels.end());
      query_.labels.EndRow();
      query_.label_totals.push_back(static_cast<uint32_t>(labels.size()));
    }
  }

  // Parameters in double: [N x (H + 1)], the bias last.
  std::vector<double> Parameters() {
    const uint32_t dim = config_.model.hidden;
    std::vector<double> all(config_.model.labels * (dim + 1));
    for (auto& layer : layers_) {
      for (uint32_t n = 0; n < config_.model.labels; ++n) {
        const uint32_t local = layer->layer().map().Local(n);
        if (local == SlotMap::kNone) continue;
        const RowView row = layer->layer().row(local);
        std::copy_n(row.weights, dim, all.begin() + n * (dim + 1));
        all[n * (dim + 1) + dim] = row.scalars->bias;
      }
    }
    return all;
  }

  // Runs query and gradient; keeps the active sets. Returns dL/dh and checks the reply's losses.
  Matrix Step() {
    const std::vector<double> w = Parameters();
    const std::vector<double> h(query_.hidden.data.begin(), query_.hidden.data.end());
    std::vector<ActiveReply> parts;
    batches_.resize(layers_.size());
    for (size_t s = 0; s < layers_.size(); ++s) {
      parts.push_back(layers_[s]->Query(query_, &random_, &batches_[s]));
    }
    for (uint32_t i = 0; i < kSamples; ++i) weights_.push_back(WeightsOf(i));
    const ActiveReply merged = MergeActive(std::move(parts));
    const std::vector<float> normaliser = LogNormaliser(merged);
    for (uint32_t i = 0; i < kSamples; ++i) {
      CHECK(merged.active[i] == weights_[i].size());
      if (config_.model.loss == Loss::kSigmoid) {
        CHECK(merged.loss[i] == doctest::Approx(SampleLoss(i, w, h)).epsilon(1e-5));
      } else if (config_.train.label_smoothing == 0) {
        const double loss = normaliser[i] - merged.target_logit[i];
        if (query_.label_totals[i] > 0) {
          CHECK(loss == doctest::Approx(SampleLoss(i, w, h)).epsilon(1e-5));
        }
      }
    }
    std::vector<Matrix> gradients;
    for (size_t s = 0; s < layers_.size(); ++s) {
      gradients.push_back(layers_[s]->Gradient(&batches_[s], normaliser, 1.0f));
    }
    return SumMatrices(std::move(gradients));
  }

  // The mean loss on the chosen active sets at parameters w and activations h.
  double Loss(const std::vector<double>& w, const std::vector<double>& h) const {
    double sum = 0;
    for (uint32_t i = 0; i < kSamples; ++i) sum += SampleLoss(i, w, h);
    return sum / kSamples;
  }

  std::vector<double> Hidden() const {
    return {query_.hidden.data.begin(), query_.hidden.data.end()};
  }

 private:
  // From the definition in DESIGN section 3, executor by executor.
  Weights WeightsOf(uint32_t i) const {
    Weights weights;
    for (size_t s = 0; s < layers_.size(); ++s) {
      const ActiveColumns& columns = batches_[s].columns;
      const SlotMap& map = layers_[s]->layer().map();
      const bool own_only = config_.model.sharing == Sharing::kSample &&
                            config_.model.active != ActiveSet::kAll;
      std::set<uint32_t> hash_part;  // columns
      if (own_only) {
        for (uint32_t e = columns.label_offsets[i]; e < columns.label_offsets[i + 1]; ++e) {
          hash_part.insert(columns.label_columns[e]);
        }
        for (uint32_t e = 0; columns.hit_offsets.size() > 1 && e < columns.hit_columns.size(); ++e) {
          if (e >= columns.hit_offsets[i] && e < columns.hit_offsets[i + 1]) {
            hash_part.insert(columns.hit_columns[e]);
          }
        }
      } else {
        for (uint32_t u = 0; u < columns.hash_part; ++u) hash_part.insert(u);
      }
      std::set<uint32_t> negatives;
      for (uint32_t u = 0; u < columns.rows.size(); ++u) {
        if (columns.drawn[u] && !hash_part.contains(u)) negatives.insert(u);
      }
      const double tail = config_.model.tail == Tail::kNone || negatives.empty()
                              ? 1.0
                              : static_cast<double>(map.size() - hash_part.size()) /
                                    static_cast<double>(negatives.size());
      for (const uint32_t u : hash_part) weights[map.Global(columns.rows[u])] = 1.0;
      for (const uint32_t u : negatives) weights[map.Global(columns.rows[u])] = tail;
    }
    return weights;
  }

  double SampleLoss(uint32_t i, const std::vector<double>& w, const std::vector<double>& h) const {
    const uint32_t dim = config_.model.hidden;
    const auto logit = [&](uint32_t n) {
      double z = w[n * (dim + 1) + dim];
      for (uint32_t j = 0; j < dim; ++j) z += w[n * (dim + 1) + j] * h[i * dim + j];
      return z;
    };
    const auto labels = query_.labels.Ids(i);
    double sum = 0, target = 0;
    if (config_.model.loss == Loss::kSigmoid) {
      for (const auto& [n, weight] : weights_[i]) sum += weight * std::log1p(std::exp(logit(n)));
      for (const uint32_t n : labels) target += logit(n);
      return sum - target;
    }
    if (labels.empty()) return 0;
    const double smoothing = config_.train.label_smoothing;
    for (const auto& [n, weight] : weights_[i]) {
      sum += weight * std::exp(logit(n));
      target += smoothing / config_.model.labels * weight * logit(n);
    }
    for (const uint32_t n : labels) {
      target += (1 - smoothing) / static_cast<double>(labels.size()) * logit(n);
    }
    return std::log(sum) - target;
  }

  Config config_;
  Random random_;
  std::vector<std::unique_ptr<OutputLayer>> layers_;
  std::vector<OutputBatch> batches_;
  std::vector<Weights> weights_;  // [B]
  ActiveQuery query_;
};

double Numeric(std::vector<double> x, size_t k,
               const std::function<double(const std::vector<double>&)>& f) {
  const double at = x[k];
  x[k] = at + kStep;
  const double above = f(x);
  x[k] = at - kStep;
  return (above - f(x)) / (2 * kStep);
}

void CheckOutputGradients(const Config& config, uint32_t shards) {
  OutputModel model(config, shards);
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
  CHECK(error_h < 1e-5);
  CHECK(error_w < 1e-5);
}

Config OutputConfig(Loss loss, Tail tail, Sharing sharing, ActiveSet active) {
  Config config = SmallConfig(50, kLabels, kHidden);
  config.model.loss = loss;
  config.model.tail = tail;
  config.model.sharing = sharing;
  config.model.active = active;
  config.model.candidates = 4;
  config.model.uniform = 8;
  config.hash.family = HashFamily::kSimHash;
  config.hash.k = 3;
  config.hash.tables = 6;
  return config;
}

void ForEachVariant(const std::function<void(const Config&)>& check) {
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    for (const Tail tail : {Tail::kWeighted, Tail::kNone}) {
      for (const Sharing sharing : {Sharing::kBatch, Sharing::kSample}) {
        for (const ActiveSet active : {ActiveSet::kAll, ActiveSet::kSampled, ActiveSet::kLsh}) {
          CAPTURE(static_cast<int>(loss));
          CAPTURE(static_cast<int>(tail));
          CAPTURE(static_cast<int>(sharing));
          CAPTURE(static_cast<int>(active));
          check(OutputConfig(loss, tail, sharing, active));
        }
      }
    }
  }
}

TEST_CASE("output gradients of every loss, tail, sharing and active set are the loss's slopes") {
  ForEachVariant([](const Config& config) {
    CheckOutputGradients(config, 1);
    CheckOutputGradients(config, 2);
  });
}

TEST_CASE("output gradients with label smoothing are the loss's slopes") {
  ForEachVariant([](Config config) {
    config.train.label_smoothing = 0.2f;
    CheckOutputGradients(config, 1);
    CheckOutputGradients(config, 2);
  });
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
  DenseNetwork network;
  const auto load = [&](LayerKind kind, uint32_t id) {
    const RowView row = cluster.Row(kind, id);
    DenseRow dense;
    dense.w.assign(row.weights, row.weights + config.model.hidden);
    dense.w.push_back(row.scalars->bias);
    return dense;
  };
  for (uint32_t f = 0; f <= config.model.features; ++f) {
    network.input.push_back(load(LayerKind::kInput, f));
  }
  for (uint32_t n = 0; n < config.model.labels; ++n) {
    network.output.push_back(load(LayerKind::kOutput, n));
  }
  Random random(21);
  const LeaseBatch batch = RandomBatch(config, 7, 2, &random);
  cluster.Train(batch, 0);
  double worst = 0, largest = 0;
  const auto check = [&](LayerKind kind, std::vector<DenseRow>* rows) {
    for (uint32_t id = 0; id < rows->size(); ++id) {
      const DenseRow after = load(kind, id);
      std::vector<double>& w = (*rows)[id].w;
      const std::vector<double> before = w;
      for (size_t j = 0; j < before.size(); ++j) {
        const bool unused = kind == LayerKind::kInput && j + 1 == before.size();
        const double numeric = unused ? 0 : Numeric(before, j, [&](const auto& x) {
          w = x;
          return network.LossSum(config, batch) / 7;
        });
        w = before;
        worst = std::max(worst, std::abs(before[j] - after.w[j] - numeric));
        largest = std::max(largest, std::abs(numeric));
      }
    }
  };
  check(LayerKind::kInput, &network.input);
  check(LayerKind::kOutput, &network.output);
  CHECK(largest > 0.05);
  CHECK(worst < 1e-5);
}

TEST_CASE("one step of SGD moves every parameter of the network by its slope") {
  Config config = SmallConfig(14, 10, 5);
  for (const Loss loss : {Loss::kSoftmax, Loss::kSigmoid}) {
    config.model.loss = loss;
    CheckNetworkGradients(config, {1});
    CheckNetworkGradients(config, {1, 2});
  }
}

}  // namespace
}  // namespace dslide
