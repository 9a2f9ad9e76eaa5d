#include "server/gate/request_bytes.h"

#include <algorithm>

#include "common/base/overloaded.h"
#include "common/run/dense_layers.h"

namespace dslide {
namespace {

template <typename T>
uint64_t Of(const std::vector<T>& numbers) {
  return numbers.capacity() * sizeof(T);
}
uint64_t Of(const Matrix& matrix) { return Of(matrix.data); }
uint64_t Of(const SparseRows& rows) { return Of(rows.offsets) + Of(rows.ids) + Of(rows.values); }
uint64_t Of(const EmbedRequest& embed) { return Of(embed.features); }
uint64_t Of(const ActiveQuery& query) {
  return Of(query.hidden) + Of(query.labels) + Of(query.label_totals) + Of(query.weights);
}
uint64_t Of(const GradientPush& push) { return Of(push.log_normaliser); }
uint64_t Of(const EmbedPush& push) {
  return Of(push.gradient) + (push.next ? Of(*push.next) : 0) +
         (push.dense ? Of(push.dense->ids) + Of(push.dense->values) : 0);
}
uint64_t Of(const TopKRequest& top) { return Of(top.hidden) + Of(top.excluded); }
uint64_t Of(const auto&) { return 0; }  // other bodies are small

}  // namespace

std::optional<BatchId> BatchOf(const Body& request) {
  using Batch = std::optional<BatchId>;
  return std::visit(Overloaded{
                        [](const EmbedRequest& embed) -> Batch { return embed.batch; },
                        [](const ActiveQuery& query) -> Batch { return query.batch; },
                        [](const GradientPush& push) -> Batch { return push.batch; },
                        [](const EmbedPush& push) -> Batch { return push.batch; },
                        [](const auto&) -> Batch { return std::nullopt; },
                    },
                    request);
}

uint64_t BytesInMemory(const Body& request) {
  return sizeof(Body) + std::visit([](const auto& body) { return Of(body); }, request);
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
