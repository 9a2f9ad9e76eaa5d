#include "tests/server/support/dense_copy.h"

#include <algorithm>
#include <cmath>
#include <vector>

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
    dense.steps = row.scalars->steps;
    return dense;
  };
  for (uint32_t f = 0; f < InputRowCount(model); ++f) {
    network.input.push_back(copy(LayerKind::kInput, f));
  }
  for (uint32_t n = 0; n < model.labels; ++n) network.output.push_back(copy(LayerKind::kOutput, n));
  return network;
}

double WorstError(LocalCluster* cluster, const DenseNetwork& network) {
  constexpr double kFloor = 0.003;
  const DenseNetwork trained = CopyOf(cluster);
  double worst = 0;
  const auto compare = [&](const std::vector<DenseRow>& a, const std::vector<DenseRow>& b) {
    REQUIRE(a.size() == b.size());
    for (size_t id = 0; id < a.size(); ++id) {
      for (size_t j = 0; j < b[id].w.size(); ++j) {
        const double exact = b[id].w[j];
        worst = std::max(worst, std::abs(a[id].w[j] - exact) / (std::abs(exact) + kFloor));
      }
      CHECK(a[id].steps == b[id].steps);
    }
  };
  compare(trained.input, network.input);
  compare(trained.output, network.output);
  return worst;
}

}  // namespace dslide
