#include "server/model/input_layer.h"

#include <utility>

#include "common/base/prefetch.h"

namespace dslide {

InputLayer::InputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
                       const Kernels& kernels)
    : kernels_(kernels),
      bias_id_(config.model.features),
      synchronous_(IsSynchronous(config.train)),
      layer_(LayerKind::kInput, config,
             SlotMap(config.model.features + 1, config.cluster.slots, slots), purpose, kernels),
      numbers_(layer_.map().rows()) {}

PartialSum InputLayer::Embed(const SparseRows& features, InputBatch* batch) {
  stats_.Enter(Phase::kEmbed);
  PartialSum partial;
  if (synchronous_) {
    partial = FixedMatrix(features.rows(), layer_.dim());
  } else {
    partial = Matrix(features.rows(), layer_.dim());
  }
  std::visit([&](auto& sum) { SumAll(features, batch, &sum); }, partial);
  stats_.Leave();
  return partial;
}

template <typename M>
void InputLayer::SumAll(const SparseRows& features, InputBatch* batch, M* partial) const {
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
    if (i > 0) Sum(*batch, i - 1, partial);  // one behind the prefetches
  }
  if (features.rows() > 0) Sum(*batch, features.rows() - 1, partial);
}

void InputLayer::Sum(const InputBatch& batch, uint32_t sample, Matrix* partial) const {
  const uint32_t begin = batch.offsets[sample];
  layer_.WeightedSum({batch.rows.data() + begin, batch.offsets[sample + 1] - begin},
                     batch.values.data() + begin, partial->row(sample));
}

// Feature by feature, so that it does not matter which of them live here.
void InputLayer::Sum(const InputBatch& batch, uint32_t sample, FixedMatrix* partial) const {
  std::vector<float> term(layer_.dim());
  for (uint32_t e = batch.offsets[sample]; e < batch.offsets[sample + 1]; ++e) {
    layer_.WeightedSum({&batch.rows[e], 1}, &batch.values[e], term.data());
    partial->in_range &= MoveToFixed(term.size(), term.data(), partial->row(sample));
  }
}

void InputLayer::Invert(const InputBatch& batch) {
  numbers_.Clear();
  offsets_.assign(1, 0);
  for (const uint32_t row : batch.rows) {
    const uint32_t u = numbers_.Of(row);
    if (u + 1 == offsets_.size()) offsets_.push_back(0);
    offsets_[u + 1]++;
  }
  // From here on offsets_[u + 1] is the begin of row u's entries; filling them moves it to their
  // end.
  uint32_t total = 0;
  for (size_t u = 1; u < offsets_.size(); ++u) total += std::exchange(offsets_[u], total);
  samples_.resize(total);
  values_.resize(total);
  for (uint32_t i = 0; i + 1 < batch.offsets.size(); ++i) {
    for (uint32_t e = batch.offsets[i]; e < batch.offsets[i + 1]; ++e) {
      const uint32_t at = offsets_[numbers_.Of(batch.rows[e]) + 1]++;
      samples_[at] = i;
      values_[at] = batch.values[e];
    }
  }
}

void InputLayer::Gradient(const InputBatch& batch, const Matrix& gradient,
                          const RowGradientSink& take) {
  const size_t ahead = PrefetchDistance(layer_.WeightBytes() + layer_.StateBytes());
  stats_.Enter(Phase::kInput);
  Invert(batch);
  std::vector<float> sum(layer_.dim());
  const std::vector<uint32_t>& rows = numbers_.rows();
  for (size_t u = 0; u < rows.size(); ++u) {
    if (u + ahead < rows.size()) layer_.PrefetchAll(rows[u + ahead]);
    const uint32_t begin = offsets_[u];
    kernels_.weighted_sum(sum.size(), offsets_[u + 1] - begin, samples_.data() + begin,
                          values_.data() + begin, gradient.data.data(), gradient.cols, sum.data());
    take(rows[u], sum.data(), 0.0f);
  }
  stats_.CountRows(rows.size());
  stats_.CountScores(samples_.size());
  stats_.Leave();
}

void InputLayer::Update(uint32_t row, float learning_rate, const float* gradient) {
  const bool is_bias = layer_.map().Global(row) == bias_id_;
  layer_.Update(row, learning_rate, gradient, 0.0f, !is_bias);
}

}  // namespace dslide
