// A model of random rows, and an independent ranking by it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "common/model/model_builder.h"
#include "common/wire/messages.h"

namespace dslide {

struct SmallModel {
  uint32_t features, hidden, labels;
  std::vector<float> input;    // [(D + 1) x H]
  std::vector<float> weights;  // [N x H]
  std::vector<float> biases;   // [N]

  std::vector<std::string> names = {};  // of the labels
  bool linear = false;                  // model.activation
  float normalize = 1;                  // train.normalize
  LogitAdjustment adjustment = {};

  // All values have few bits: bf16 keeps them.
  SmallModel(uint32_t d, uint32_t h, uint32_t n, uint64_t seed)
      : features(d), hidden(h), labels(n) {
    Random random(seed);
    const auto draw = [&] {
      return static_cast<float>(static_cast<int>(random.Below(127)) - 63) / 32;
    };
    for (size_t i = 0; i < (size_t{d} + 1) * h; ++i) input.push_back(draw());
    for (size_t i = 0; i < size_t{n} * h; ++i) weights.push_back(draw());
    for (uint32_t i = 0; i < n; ++i) biases.push_back(draw());
  }

  ModelBuilder Builder(Loss loss = Loss::kSoftmax, const Kernels& kernels = BestKernels()) const {
    ModelInfo info;
    info.name = "small";
    info.samples = 17;
    info.label_names = names;
    info.adjustment = adjustment;
    info.config.model.features = features;
    info.config.model.hidden = hidden;
    info.config.model.labels = labels;
    info.config.model.loss = loss;
    info.config.train.normalize = normalize;
    if (linear) info.config.model.activation = Activation::kLinear;
    ModelBuilder builder(info, nullptr, kernels);
    for (uint32_t f = 0; f <= features; ++f) {
      builder.SetInput(f, input.data() + size_t{f} * hidden);
    }
    for (uint32_t j = 0; j < labels; ++j) {
      builder.SetNeuron(j, weights.data() + size_t{j} * hidden, biases[j]);
    }
    return builder;
  }
  std::shared_ptr<const Model> Build(ModelBuilder::Options options = {}) const {
    return std::move(Builder()).Finish(options);
  }

  std::vector<double> Activations(const SparseRows& samples, uint32_t i) const {
    std::vector<double> h(hidden);
    for (uint32_t d = 0; d < hidden; ++d) {
      h[d] = input[size_t{features} * hidden + d];
      for (size_t e = 0; e < samples.Ids(i).size(); ++e) {
        h[d] += double{samples.Values(i)[e]} * input[size_t{samples.Ids(i)[e]} * hidden + d];
      }
      if (!linear) h[d] = std::max(h[d], 0.0);
    }
    return h;
  }
  std::vector<double> Logits(const SparseRows& samples, uint32_t i) const {
    const std::vector<double> h = Activations(samples, i);
    std::vector<double> z(biases.begin(), biases.end());
    for (uint32_t j = 0; j < labels; ++j) {
      for (uint32_t d = 0; d < hidden; ++d) z[j] += h[d] * weights[size_t{j} * hidden + d];
    }
    return z;
  }
  // All labels, best first.
  static std::vector<uint32_t> Order(const std::vector<double>& logits) {
    std::vector<uint32_t> order(logits.size());
    for (uint32_t j = 0; j < order.size(); ++j) order[j] = j;
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    return order;
  }
};

// A sample's activations alone.
inline Matrix OneRow(const Matrix& hidden, uint32_t i) {
  Matrix row(1, hidden.cols);
  std::copy_n(hidden.row(i), hidden.cols, row.row(0));
  return row;
}

inline SparseRows SmallSamples(uint32_t count, uint32_t features, uint64_t seed) {
  Random random(seed);
  SparseRows rows;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t f = 0; f < features; ++f) {
      if (random.Below(3) != 0) continue;
      rows.ids.push_back(f);
      rows.values.push_back(static_cast<float>(random.Below(15) + 1) / 8);
    }
    rows.EndRow();
  }
  return rows;
}

}  // namespace dslide
