#include "server/input_layer.h"

#include <utility>

#include "common/base/prefetch.h"

namespace dslide {

InputLayer::InputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
                       const Kernels& kernels)
    : kernels_(kernels),
      bias_id_(config.model.features),
      layer_(LayerKind::kInput, config,
             SlotMap(config.model.features + 1, config.cluster.slots, slots), purpose, kernels),
      column_(layer_.map().rows(), SlotMap::kNone) {}

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
      layer_.PrefetchWeights(row);
      batch->rows.push_back(row);
      batch->values.push_back(values[j]);
    }
    batch->offsets.push_back(static_cast<uint32_t>(batch->rows.size()));
    if (i > 0) Sum(*batch, i - 1, &partial);  // one behind the prefetches
  }
  if (features.rows() > 0) Sum(*batch, features.rows() - 1, &partial);
  stats_.Leave();
  return partial;
}

void InputLayer::Sum(const InputBatch& batch, uint32_t sample, Matrix* partial) const {
  const uint32_t begin = batch.offsets[sample];
  layer_.WeightedSum({batch.rows.data() + begin, batch.offsets[sample + 1] - begin},
                     batch.values.data() + begin, partial->row(sample));
}

void InputLayer::Invert(const InputBatch& batch) {
  rows_.clear();
  offsets_.clear();
  for (const uint32_t row : batch.rows) {
    if (column_[row] == SlotMap::kNone) {
      column_[row] = static_cast<uint32_t>(rows_.size());
      rows_.push_back(row);
      offsets_.push_back(0);
    }
    offsets_[column_[row]]++;
  }
  uint32_t total = 0;
  for (uint32_t& offset : offsets_) total += std::exchange(offset, total);
  samples_.resize(total);
  values_.resize(total);
  for (uint32_t i = 0; i + 1 < batch.offsets.size(); ++i) {
    for (uint32_t e = batch.offsets[i]; e < batch.offsets[i + 1]; ++e) {
      const uint32_t at = offsets_[column_[batch.rows[e]]]++;
      samples_[at] = i;
      values_[at] = batch.values[e];
    }
  }
  // Each offset has moved to its row's end, the next row's begin.
  offsets_.insert(offsets_.begin(), 0);
  for (const uint32_t row : rows_) column_[row] = SlotMap::kNone;
}

void InputLayer::ApplyGradient(const InputBatch& batch, const Matrix& gradient,
                               float learning_rate) {
  const size_t ahead = PrefetchDistance(layer_.WeightBytes() + layer_.StateBytes());
  stats_.Enter(Phase::kInput);
  Invert(batch);
  std::vector<float> sum(layer_.dim());
  for (size_t u = 0; u < rows_.size(); ++u) {
    if (u + ahead < rows_.size()) layer_.PrefetchAll(rows_[u + ahead]);
    const uint32_t begin = offsets_[u];
    kernels_.weighted_sum(sum.size(), offsets_[u + 1] - begin, samples_.data() + begin,
                          values_.data() + begin, gradient.data.data(), gradient.cols, sum.data());
    const bool is_bias = layer_.map().Global(rows_[u]) == bias_id_;
    layer_.Update(rows_[u], learning_rate, sum.data(), 0.0f, !is_bias);
  }
  stats_.CountRows(rows_.size());
  stats_.CountScores(samples_.size());
  stats_.Leave();
}

}  // namespace dslide
