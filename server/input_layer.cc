#include "server/input_layer.h"

#include <algorithm>
#include <utility>

namespace dslide {

InputLayer::InputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
                       const Kernels& kernels)
    : kernels_(kernels),
      bias_id_(config.model.features),
      layer_(LayerKind::kInput, SlotMap(config.model.features + 1, config.cluster.slots, slots),
             config.model.hidden, config.train.optimizer, purpose),
      optimizer_(config.train, kernels) {}

Matrix InputLayer::Embed(const SparseRows& features, InputBatch* batch) {
  stats_.Enter(Phase::kEmbed);
  Matrix partial(features.rows(), layer_.dim());
  batch->offsets.assign(1, 0);
  batch->rows.clear();
  batch->values.clear();
  for (uint32_t i = 0; i < features.rows(); ++i) {
    const auto ids = features.Ids(i);
    const auto values = features.Values(i);
    for (size_t j = 0; j < ids.size(); ++j) {
      const uint32_t row = layer_.map().Local(ids[j]);
      if (row == SlotMap::kNone) continue;
      batch->rows.push_back(row);
      batch->values.push_back(values[j]);
      kernels_.axpy(layer_.dim(), values[j], layer_.weights(row), partial.row(i));
    }
    batch->offsets.push_back(static_cast<uint32_t>(batch->rows.size()));
  }
  stats_.Leave();
  return partial;
}

void InputLayer::ApplyGradient(const InputBatch& batch, const Matrix& gradient,
                               float learning_rate) {
  stats_.Enter(Phase::kInput);
  struct Entry {
    uint32_t row;
    uint32_t sample;
    float value;
  };
  std::vector<Entry> entries;
  entries.reserve(batch.rows.size());
  for (uint32_t i = 0; i + 1 < batch.offsets.size(); ++i) {
    for (uint32_t e = batch.offsets[i]; e < batch.offsets[i + 1]; ++e) {
      entries.push_back({batch.rows[e], i, batch.values[e]});
    }
  }
  // By row, samples in order: each row is read and written once, and its sum has a fixed order.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.row, a.sample) < std::pair(b.row, b.sample);
  });
  std::vector<float> sum(layer_.dim());
  for (size_t begin = 0; begin < entries.size();) {
    const uint32_t row = entries[begin].row;
    std::fill(sum.begin(), sum.end(), 0.0f);
    size_t end = begin;
    for (; end < entries.size() && entries[end].row == row; ++end) {
      kernels_.axpy(sum.size(), entries[end].value, gradient.row(entries[end].sample), sum.data());
    }
    const bool is_bias = layer_.map().Global(row) == bias_id_;
    optimizer_.Apply(learning_rate, sum.size(), sum.data(), 0.0f, !is_bias, layer_.row(row));
    begin = end;
    stats_.CountRows(1);
  }
  stats_.Leave();
}

}  // namespace dslide
