#include "server/model/input_layer.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/plural.h"
#include "common/math/prefetch.h"
#include "server/model/partial_sums.h"

namespace dslide {

InputLayer::InputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
                       const Kernels& kernels)
    : kernels_(kernels),
      bias_id_(config.model.features),
      dense_rate_(config.train.dense_rate),
      synchronous_(IsSynchronous(config.train)),
      layer_(LayerKind::kInput, config,
             SlotMap(InputRowCount(config.model), config.cluster.slots, InputSlots(config.cluster),
                     slots),
             purpose, kernels),
      numbers_(layer_.map().rows()) {
  for (uint32_t row = 0; row < DenseRowCount(config.model); ++row) {
    dense_.push_back(StartOfDenseRow(config.model, row));
  }
}

void InputLayer::Initialise(const Config& config) {
  layer_.Initialise(config.common.seed, config.model.input_init, config.model.features);
  ForEachDense([&](uint32_t row, uint32_t, const DenseRowStart& start) {
    layer_.InitialiseRow(row, config.common.seed, start.deviation, start.columns);
    if (start.passed == DenseRowStart::kNone) return;
    std::vector<float> weights(layer_.dim());
    layer_.Gather({&row, 1}, weights.data());
    weights[start.passed] += start.passed_weight;
    layer_.SetWeights(row, weights.data());
  });
}

void InputLayer::Resize(const Config& config, const ModelShape& shape) {
  DSLIDE_CHECK(dense_.empty());
  const auto draw = [&](uint32_t id) {
    const uint32_t row = layer_.map().Local(id);
    if (row == SlotMap::kNone) return;
    layer_.BeginAnew(row, config.common.seed, config.model.input_init);
  };
  const uint32_t before = bias_id_;
  bias_id_ = std::max(before, shape.features);
  layer_.Widen(uint64_t{bias_id_} + 1);
  for (uint32_t id = before; id < bias_id_; ++id) draw(id);
  for (const uint32_t id : shape.recycled_features) draw(id);
  FollowMap();
}

template <typename Each>
void InputLayer::ForEachDense(const Each& each) const {
  for (uint32_t d = 0; d < dense_.size(); ++d) {
    const uint32_t id = bias_id_ + 1 + d;
    const uint32_t row = layer_.map().Local(id);
    if (row != SlotMap::kNone) each(row, id, dense_[d]);
  }
}

std::string InputLayer::WhyNotDense(const std::optional<LayerRows>& dense) const {
  if (dense_.empty()) {
    return dense ? "EmbedPush: gradients of dense layers, and the model has none" : "";
  }
  if (!dense) return "EmbedPush: the gradients of the dense layers are missing";
  if (!dense->ids.empty() && dense->values.cols != layer_.dim()) {
    return fmt::format("EmbedPush: rows of dense layers have {} columns, expected {}",
                       dense->values.cols, layer_.dim());
  }
  uint32_t here = 0, expected = 0, last = 0;
  for (const uint32_t id : dense->ids) {
    if (id <= bias_id_ || id - bias_id_ > dense_.size()) {
      return fmt::format("EmbedPush: row {} is of no dense layer", id);
    }
    if (id <= last) return fmt::format("EmbedPush: row {} is there twice, or out of order", id);
    last = id;
    here += layer_.map().Local(id) != SlotMap::kNone;
  }
  ForEachDense([&](uint32_t, uint32_t, const DenseRowStart&) { ++expected; });
  if (here == expected) return "";
  return fmt::format("EmbedPush: {} of dense layers, expected {}", Plural(here, "row"), expected);
}

LayerRows InputLayer::DenseRows() const {
  LayerRows rows;
  std::vector<uint32_t> local;
  ForEachDense([&](uint32_t row, uint32_t id, const DenseRowStart&) {
    rows.ids.push_back(id);
    local.push_back(row);
  });
  rows.values = Matrix(static_cast<uint32_t>(local.size()), layer_.dim());
  layer_.Gather(local, rows.values.data.data());
  return rows;
}

std::vector<uint32_t> InputLayer::LocalRows(const SparseRows& features) const {
  std::vector<uint32_t> rows;
  for (const uint32_t id : features.ids) {
    const uint32_t row = layer_.map().Local(id);
    if (row != SlotMap::kNone) rows.push_back(row);
  }
  return rows;
}

void InputLayer::ReadAhead(const SparseRows& features) const {
  if (layer_.has_rows_on_disk()) layer_.Fetch(LocalRows(features), true);
}

PartialSum InputLayer::Embed(const SparseRows& features, InputBatch* batch) {
  stats_.Enter(Phase::kEmbed);
  PartialSums partial(features.rows(), layer_.dim(), synchronous_);
  batch->Clear();
  const auto sum = [&](uint32_t i) {
    partial.AddRows(layer_, batch->Columns(i), batch->Values(i).data(), i);
  };
  if (layer_.has_rows_on_disk()) layer_.Fetch(LocalRows(features));
  for (uint32_t i = 0; i < features.rows(); ++i) {
    const auto ids = features.Ids(i);
    const auto values = features.Values(i);
    for (size_t j = 0; j < ids.size(); ++j) {
      const uint32_t row = layer_.map().Local(ids[j]);
      if (row == SlotMap::kNone) continue;
      layer_.PrefetchWeights(row);
      batch->Append(row, values[j]);
    }
    batch->EndRow();
    if (i > 0) sum(i - 1);  // one behind the prefetches
  }
  if (features.rows() > 0) sum(features.rows() - 1);
  stats_.Leave();
  return partial.Take();
}

EmbedReply InputLayer::Answer(const EmbedRequest& request, InputBatch* batch) {
  EmbedReply reply{Embed(request.features, batch)};
  if (request.dense) reply.dense = DenseRows();
  return reply;
}

void InputLayer::Gradient(const InputBatch& batch, const EmbedPush& push,
                          const RowGradientSink& take) {
  const size_t ahead = PrefetchDistance(layer_.WeightBytes() + layer_.StateBytes());
  stats_.Enter(Phase::kInput);
  numbers_.Clear();
  numbered_.clear();
  for (const uint32_t row : batch.columns) numbered_.push_back(numbers_.Of(row));
  const std::vector<uint32_t>& rows = numbers_.rows();
  Transpose(batch, numbered_, numbers_.size(), &by_row_);
  std::vector<float> sum(layer_.dim());
  for (uint32_t u = 0; u < rows.size(); ++u) {
    layer_.FetchAhead(rows, u);
    if (u + ahead < rows.size()) layer_.PrefetchAll(rows[u + ahead]);
    const auto samples = by_row_.Columns(u);
    kernels_.weighted_sum(sum.size(), samples.size(), samples.data(), by_row_.Values(u).data(),
                          push.gradient.data.data(), push.gradient.cols, sum.data());
    take(rows[u], sum.data(), 0.0f);
  }
  stats_.CountRows(rows.size());
  stats_.CountProducts(2 * numbered_.size());  // one in Embed()
  stats_.Leave();
  for (uint32_t i = 0; push.dense && i < push.dense->ids.size(); ++i) {
    const uint32_t row = layer_.map().Local(push.dense->ids[i]);
    if (row != SlotMap::kNone) take(row, push.dense->values.row(i), 0.0f);
  }
}

void InputLayer::Update(uint32_t row, float learning_rate, const float* gradient) {
  const uint32_t id = layer_.map().Global(row);
  const bool is_bias = id == bias_id_ || (id > bias_id_ && dense_[id - bias_id_ - 1].is_bias);
  const float rate = id > bias_id_ ? learning_rate * dense_rate_ : learning_rate;
  layer_.Update(row, rate, gradient, 0.0f, !is_bias);
}

}  // namespace dslide
