#include "server/gate/request_bytes.h"

#include <algorithm>

#include "common/run/dense_layers.h"

namespace dslide {
namespace {

template <typename T>
uint64_t Of(const std::vector<T>& numbers) {
  return numbers.capacity() * sizeof(T);
}
uint64_t Of(const Matrix& matrix) { return Of(matrix.data); }
uint64_t Of(const SparseRows& rows) { return Of(rows.offsets) + Of(rows.ids) + Of(rows.values); }

}  // namespace

std::optional<BatchId> BatchOf(const Body& request) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) return embed->batch;
  if (const auto* query = std::get_if<ActiveQuery>(&request)) return query->batch;
  if (const auto* push = std::get_if<GradientPush>(&request)) return push->batch;
  if (const auto* push = std::get_if<EmbedPush>(&request)) return push->batch;
  return std::nullopt;
}

uint64_t BytesInMemory(const Body& request) {
  uint64_t bytes = sizeof(Body);
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) {
    bytes += Of(embed->features);
  } else if (const auto* query = std::get_if<ActiveQuery>(&request)) {
    bytes += Of(query->hidden) + Of(query->labels) + Of(query->label_totals) + Of(query->weights);
  } else if (const auto* gradients = std::get_if<GradientPush>(&request)) {
    bytes += Of(gradients->log_normaliser);
  } else if (const auto* push = std::get_if<EmbedPush>(&request)) {
    bytes += Of(push->gradient) + (push->next ? Of(push->next->features) : 0);
    if (push->dense) bytes += Of(push->dense->ids) + Of(push->dense->values);
  } else if (const auto* top = std::get_if<TopKRequest>(&request)) {
    bytes += Of(top->hidden) + Of(top->excluded);
  }
  return bytes;
}

uint64_t MostWaitingBytes(const Config& config) {
  constexpr uint64_t kLeast = uint64_t{32} << 20;
  constexpr uint64_t kLeastBatches = 32, kFeatureRequests = 4;
  const uint64_t batches =
      std::max<uint64_t>(kLeastBatches, 2 * uint64_t{config.train.batches_in_flight});
  const uint64_t samples = std::max<uint64_t>(config.train.batch, 512);
  const uint64_t width = std::max(config.model.hidden, OutputWidth(config.model));
  const uint64_t dense = uint64_t{DenseRowCount(config.model)} * config.model.hidden;
  const uint64_t rows = (samples * width + dense) * sizeof(float);
  const uint64_t features =
      samples * std::min<uint64_t>(config.model.features + uint64_t{1}, kMostFeaturesOfSample) *
      (sizeof(uint32_t) + sizeof(float));
  return kLeast + kFeatureRequests * features + batches * rows;
}

uint64_t MostBytesOfBatch(const Config& config) {
  constexpr uint64_t kBytes = sizeof(float) + sizeof(uint16_t);  // of an element, with its bf16
  return uint64_t{config.train.batch} * OutputWidth(config.model) * kBytes;
}

}  // namespace dslide
