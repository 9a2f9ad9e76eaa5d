#include "tests/server/support/dense_copy.h"

namespace dslide {

DenseNetwork CopyOf(LocalCluster* cluster) {
  const ModelConfig& model = cluster->config().model;
  DenseNetwork network;
  const auto copy = [&](LayerKind kind, uint32_t id) {
    const RowView row = cluster->Row(kind, id);
    DenseRow dense;
    dense.w.assign(row.weights,
                   row.weights + (kind == LayerKind::kInput ? model.hidden : OutputWidth(model)));
    dense.w.push_back(row.scalars->bias);
    return dense;
  };
  for (uint32_t f = 0; f < InputRowCount(model); ++f) {
    network.input.push_back(copy(LayerKind::kInput, f));
  }
  for (uint32_t n = 0; n < model.labels; ++n) network.output.push_back(copy(LayerKind::kOutput, n));
  return network;
}

}  // namespace dslide
