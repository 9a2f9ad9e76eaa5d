#include "tests/server/model/output_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/math/kernels.h"
#include "common/run/combine.h"

namespace dslide {

OutputModel::OutputModel(const Config& config, uint32_t shards) : config_(config), random_(3) {
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
    if (LiveTables* tables = layers_[s]->tables()) tables->CatchUp();
  }
  query_.hidden = Matrix(kOutputSamples, config.model.hidden);
  for (float& h : query_.hidden.data) {
    h = std::max(0.0f, static_cast<float>(random_.Normal() + 0.5));
  }
  // The fourth sample has no labels.
  for (uint32_t i = 0; i < kOutputSamples; ++i) {
    std::set<uint32_t> labels;
    while (labels.size() < (i == 3 ? 0 : 1 + i % 3)) {
      labels.insert(static_cast<uint32_t>(random_.Below(config.model.labels)));
    }
    query_.labels.ids.insert(query_.labels.ids.end(), labels.begin(), labels.end());
    query_.labels.EndRow();
    query_.label_totals.push_back(static_cast<uint32_t>(labels.size()));
  }
}

std::vector<double> OutputModel::Parameters() {
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

Matrix OutputModel::Step() {
  const std::vector<double> w = Parameters();
  const std::vector<double> h(query_.hidden.data.begin(), query_.hidden.data.end());
  std::vector<ActiveReply> parts;
  batches_.resize(layers_.size());
  for (size_t s = 0; s < layers_.size(); ++s) {
    parts.push_back(
        layers_[s]->Query(query_, {1, config_.model.negatives}, &random_, &batches_[s]));
  }
  for (uint32_t i = 0; i < kOutputSamples; ++i) weights_.push_back(WeightsOf(i));
  const ActiveReply merged = MergeActive(std::move(parts));
  const std::vector<float> normaliser = LogNormaliser(merged);
  for (uint32_t i = 0; i < kOutputSamples; ++i) {
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
  std::vector<PartialSum> gradients;
  for (size_t s = 0; s < layers_.size(); ++s) {
    gradients.push_back(layers_[s]->Gradient(
        &batches_[s], normaliser,
        [&](uint32_t row, const float* g, float bias) { layers_[s]->Update(row, 1.0f, g, bias); }));
  }
  return InFloats(SumPartials(std::move(gradients)));
}

double OutputModel::Loss(const std::vector<double>& w, const std::vector<double>& h) const {
  double sum = 0;
  for (uint32_t i = 0; i < kOutputSamples; ++i) sum += SampleLoss(i, w, h);
  return sum / kOutputSamples;
}

std::vector<double> OutputModel::Hidden() const {
  return {query_.hidden.data.begin(), query_.hidden.data.end()};
}

Weights OutputModel::WeightsOf(uint32_t i) const {
  Weights weights;
  for (size_t s = 0; s < layers_.size(); ++s) {
    const ActiveColumns& columns = batches_[s].columns;
    const SlotMap& map = layers_[s]->layer().map();
    const bool own_only =
        config_.model.sharing == Sharing::kSample && config_.model.active != ActiveSet::kAll;
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
    // No mass has been observed yet: all neurons are drawn with one probability.
    const double even =
        static_cast<double>(config_.model.labels) / static_cast<double>(config_.model.negatives);
    const double tail = config_.model.tail == Tail::kNone || negatives.empty() ? 1.0
                        : config_.model.active == ActiveSet::kMass
                            ? even
                            : static_cast<double>(map.size() - hash_part.size()) /
                                  static_cast<double>(negatives.size());
    for (const uint32_t u : hash_part) weights[map.Global(columns.rows[u])] = 1.0;
    for (const uint32_t u : negatives) weights[map.Global(columns.rows[u])] = tail;
  }
  return weights;
}

double OutputModel::SampleLoss(uint32_t i, const std::vector<double>& w,
                               const std::vector<double>& h) const {
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

}  // namespace dslide
