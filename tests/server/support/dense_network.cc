#include "tests/server/support/dense_network.h"

#include <cmath>

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
    m[j] = train.beta1 * m[j] + (1 - double{train.beta1}) * g[j];
    v[j] = train.beta2 * v[j] + (1 - double{train.beta2}) * g[j] * g[j];
    switch (train.optimizer) {
      case OptimizerKind::kAdam: {
        const double m_hat = m[j] / (1 - std::pow(double{train.beta1}, steps));
        const double v_hat = v[j] / (1 - std::pow(double{train.beta2}, steps));
        w[j] -= rate * m_hat / (std::sqrt(v_hat) + train.epsilon);
        break;
      }
      case OptimizerKind::kAdaGrad:
        w[j] -= rate * g[j] / (std::sqrt(accumulator) + train.epsilon);
        break;
      case OptimizerKind::kSgd:
        w[j] -= rate * g[j];
        break;
    }
  }
}

DenseNetwork::Forward DenseNetwork::Run(const Config& config, const LeaseBatch& batch,
                                        uint32_t i) const {
  const uint32_t hidden = config.model.hidden;
  Forward f;
  f.h.assign(hidden, 0.0);
  const auto ids = batch.features.Ids(i);
  const auto values = batch.features.Values(i);
  for (uint32_t j = 0; j < hidden; ++j) {
    double a = input.back().w[j];
    for (size_t e = 0; e < ids.size(); ++e) a += double{values[e]} * input[ids[e]].w[j];
    f.h[j] = a > 0 || IsLinear(config.model) ? a : 0;
  }
  for (const DenseRow& neuron : output) {
    double z = neuron.w[hidden];
    for (uint32_t j = 0; j < hidden; ++j) z += neuron.w[j] * f.h[j];
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
  std::vector<std::vector<double>> out(output.size(), std::vector<double>(hidden + 1));
  std::vector<std::vector<double>> in(input.size(), std::vector<double>(hidden + 1));
  std::vector<bool> touched(input.size());
  touched.back() = true;
  double loss = 0;
  for (uint32_t i = 0; i < samples; ++i) {
    const double weight = WeightOf(batch, i);
    if (weight == 0) continue;
    const Forward f = Run(config, batch, i);
    loss += weight * SampleLoss(config, f);
    std::vector<double> dh(hidden);
    for (size_t n = 0; n < output.size(); ++n) {
      const double delta = weight * DeltaOf(config, f, n) / samples;
      for (uint32_t j = 0; j < hidden; ++j) {
        out[n][j] += delta * f.h[j];
        dh[j] += delta * output[n].w[j];
      }
      out[n][hidden] += delta;
    }
    for (uint32_t j = 0; j < hidden; ++j) {
      if (f.h[j] <= 0 && !IsLinear(config.model)) continue;
      const auto ids = batch.features.Ids(i);
      for (size_t e = 0; e < ids.size(); ++e) {
        in[ids[e]][j] += batch.features.Values(i)[e] * dh[j];
      }
      in.back()[j] += dh[j];
    }
    for (const uint32_t id : batch.features.Ids(i)) touched[id] = true;
  }
  for (size_t n = 0; n < output.size(); ++n) output[n].Update(config.train, rate, out[n], true);
  for (size_t f = 0; f < input.size(); ++f) {
    if (touched[f]) input[f].Update(config.train, rate, in[f], f + 1 < input.size());
  }
  return loss;
}

}  // namespace dslide
