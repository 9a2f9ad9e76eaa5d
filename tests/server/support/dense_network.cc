#include "tests/server/support/dense_network.h"

#include <cmath>

#include "server/rows/optimizer.h"

namespace dslide {

namespace {

double DeltaOf(const Config& config, const DenseNetwork::Forward& f, size_t n) {
  if (config.model.loss == Loss::kSigmoid) {
    return 1 / (1 + std::exp(-f.logits[n])) - f.target[n];
  }
  double mass = 0, sum = 0;
  for (size_t k = 0; k < f.logits.size(); ++k) {
    mass += f.target[k];
    sum += std::exp(f.logits[k]);
  }
  return mass > 0 ? std::exp(f.logits[n]) / sum - f.target[n] : 0.0;
}

double WeightOf(const LeaseBatch& batch, uint32_t i) {
  return batch.weights.empty() ? 1.0 : double{batch.weights[i]};
}

}  // namespace

void DenseRow::Update(const TrainConfig& train, double rate, const std::vector<double>& g,
                      bool decay) {
  ++steps;
  m.resize(w.size());
  v.resize(w.size());
  double squares = 0;
  for (const double x : g) squares += x * x;
  accumulator += squares / static_cast<double>(g.size());
  for (size_t j = 0; j < w.size(); ++j) {
    const bool is_bias = j + 1 == w.size();
    if (decay && !is_bias) w[j] -= rate * train.weight_decay * w[j];
    m[j] = Optimizer::kBeta1 * m[j] + (1 - double{Optimizer::kBeta1}) * g[j];
    v[j] = Optimizer::kBeta2 * v[j] + (1 - double{Optimizer::kBeta2}) * g[j] * g[j];
    switch (train.optimizer) {
      case OptimizerKind::kAdam: {
        const double m_hat = m[j] / (1 - std::pow(double{Optimizer::kBeta1}, steps));
        const double v_hat = v[j] / (1 - std::pow(double{Optimizer::kBeta2}, steps));
        w[j] -= rate * m_hat / (std::sqrt(v_hat) + Optimizer::kEpsilon);
        break;
      }
      case OptimizerKind::kAdaGrad:
        w[j] -= rate * g[j] / (std::sqrt(accumulator) + Optimizer::kEpsilon);
        break;
      case OptimizerKind::kSgd:
        w[j] -= rate * g[j];
        break;
    }
  }
}

std::vector<DenseNetwork::Layer> DenseNetwork::LayersOf(const Config& config) {
  std::vector<Layer> layers;
  size_t in = config.model.hidden, first = size_t{config.model.features} + 1;
  for (const size_t out : config.model.dense) {
    layers.push_back({in, out, first});
    first = BiasAt(config, layers.back(), out - 1).row + 1;
    in = out;
  }
  return layers;
}

DenseNetwork::Place DenseNetwork::WeightAt(const Config& config, const Layer& layer, size_t unit,
                                           size_t from) {
  const size_t width = config.model.hidden;
  const size_t rows = (layer.in - 1) / width + 1;
  return {layer.first + unit * rows + from / width, from % width};
}

DenseNetwork::Place DenseNetwork::BiasAt(const Config& config, const Layer& layer, size_t unit) {
  const size_t width = config.model.hidden;
  const size_t rows = (layer.in - 1) / width + 1;
  return {layer.first + layer.out * rows + unit / width, unit % width};
}

DenseNetwork::Forward DenseNetwork::Run(const Config& config, const LeaseBatch& batch,
                                        uint32_t i) const {
  const uint32_t hidden = config.model.hidden;
  Forward f;
  std::vector<double> first(hidden);
  const auto ids = batch.features.Ids(i);
  const auto values = batch.features.Values(i);
  for (uint32_t j = 0; j < hidden; ++j) {
    double a = input[config.model.features].w[j];
    for (size_t e = 0; e < ids.size(); ++e) a += double{values[e]} * input[ids[e]].w[j];
    first[j] = a > 0 || IsLinear(config.model) ? a : 0;
  }
  f.layers.push_back(first);
  const auto at = [&](const Place& place) { return input[place.row].w[place.column]; };
  for (const Layer& layer : LayersOf(config)) {
    std::vector<double> next(layer.out);
    for (size_t k = 0; k < layer.out; ++k) {
      double a = at(BiasAt(config, layer, k));
      for (size_t j = 0; j < layer.in; ++j) {
        a += at(WeightAt(config, layer, k, j)) * f.layers.back()[j];
      }
      next[k] = a > 0 ? a : 0;
    }
    f.layers.push_back(next);
  }
  f.h = f.layers.back();
  const size_t width = f.h.size();
  for (const DenseRow& neuron : output) {
    double z = neuron.w[width];
    for (size_t j = 0; j < width; ++j) z += neuron.w[j] * f.h[j];
    f.logits.push_back(z);
  }
  f.target.assign(output.size(), 0.0);
  const auto labels = batch.labels.Ids(i);
  for (const uint32_t label : labels) {
    f.target[label] =
        config.model.loss == Loss::kSoftmax ? 1.0 / static_cast<double>(labels.size()) : 1.0;
  }
  return f;
}

double DenseNetwork::SampleLoss(const Config& config, const Forward& f) {
  double loss = 0, sum = 0, mass = 0;
  for (size_t n = 0; n < f.logits.size(); ++n) {
    loss -= f.target[n] * f.logits[n];
    mass += f.target[n];
    sum += config.model.loss == Loss::kSoftmax ? std::exp(f.logits[n])
                                               : std::log1p(std::exp(f.logits[n]));
  }
  if (config.model.loss == Loss::kSigmoid) return loss + sum;
  return mass > 0 ? loss + std::log(sum) : 0.0;
}

double DenseNetwork::LossSum(const Config& config, const LeaseBatch& batch) const {
  double sum = 0;
  for (uint32_t i = 0; i < batch.features.rows(); ++i) {
    sum += WeightOf(batch, i) * SampleLoss(config, Run(config, batch, i));
  }
  return sum;
}

double DenseNetwork::Train(const Config& config, const LeaseBatch& batch, double rate) {
  const uint32_t hidden = config.model.hidden;
  const uint32_t samples = batch.features.rows();
  const std::vector<Layer> layers = LayersOf(config);
  const size_t width = layers.empty() ? hidden : layers.back().out;
  std::vector<std::vector<double>> out(output.size(), std::vector<double>(width + 1));
  std::vector<std::vector<double>> in(input.size(), std::vector<double>(hidden + 1));
  std::vector<bool> touched(input.size());
  for (size_t f = config.model.features; f < input.size(); ++f) touched[f] = true;
  double loss = 0;
  for (uint32_t i = 0; i < samples; ++i) {
    const double weight = WeightOf(batch, i);
    if (weight == 0) continue;
    const Forward f = Run(config, batch, i);
    loss += weight * SampleLoss(config, f);
    std::vector<double> dh(width);
    for (size_t n = 0; n < output.size(); ++n) {
      const double delta = weight * DeltaOf(config, f, n) / samples;
      for (size_t j = 0; j < width; ++j) {
        out[n][j] += delta * f.h[j];
        dh[j] += delta * output[n].w[j];
      }
      out[n][width] += delta;
    }
    for (size_t l = layers.size(); l-- > 0;) {
      std::vector<double> below(layers[l].in);
      for (size_t k = 0; k < layers[l].out; ++k) {
        if (f.layers[l + 1][k] <= 0) continue;
        const Place bias = BiasAt(config, layers[l], k);
        in[bias.row][bias.column] += dh[k];
        for (size_t j = 0; j < layers[l].in; ++j) {
          const Place at = WeightAt(config, layers[l], k, j);
          in[at.row][at.column] += dh[k] * f.layers[l][j];
          below[j] += dh[k] * input[at.row].w[at.column];
        }
      }
      dh = below;
    }
    for (uint32_t j = 0; j < hidden; ++j) {
      if (f.layers.front()[j] <= 0 && !IsLinear(config.model)) continue;
      const auto ids = batch.features.Ids(i);
      for (size_t e = 0; e < ids.size(); ++e) {
        in[ids[e]][j] += batch.features.Values(i)[e] * dh[j];
      }
      in[config.model.features][j] += dh[j];
    }
    for (const uint32_t id : batch.features.Ids(i)) touched[id] = true;
  }
  for (size_t n = 0; n < output.size(); ++n) output[n].Update(config.train, rate, out[n], true);
  for (size_t f = 0; f < input.size(); ++f) {
    bool decays = f != config.model.features;
    for (const Layer& layer : layers) {
      const size_t first = BiasAt(config, layer, 0).row;
      decays &= f < first || f > BiasAt(config, layer, layer.out - 1).row;
    }
    const double share = f > config.model.features ? double{config.train.dense_rate} : 1.0;
    if (touched[f]) input[f].Update(config.train, share * rate, in[f], decays);
  }
  return loss;
}

}  // namespace dslide
