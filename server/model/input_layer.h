// The input rows E_f of one executor: partial pre-activations and their gradient.
//
// The hidden bias b1 is the row of feature D (value 1 in every sample, added by the worker). Behind
// it are the rows of the dense layers (common/run/dense_layers.h), which no sample names: workers
// get them, and push their gradients. Owned by one executor thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/run/dense_layers.h"
#include "common/wire/messages.h"
#include "server/model/engine_stats.h"
#include "server/model/gradient_sums.h"
#include "server/model/sparse_matrix.h"
#include "server/rows/layer.h"
#include "server/rows/row_numbers.h"

namespace dslide {

// A batch's features that live here: a row a sample, columns are local rows.
using InputBatch = SparseMatrix;

class InputLayer {
 public:
  InputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
             const Kernels& kernels);

  Layer& layer() { return layer_; }
  const Layer& layer() const { return layer_; }
  // Call when layer().map() changed.
  void FollowMap() { numbers_.Grow(layer_.map().rows()); }
  // The model has more features. Their rows, and those of recycled features, are drawn.
  // REQUIRES no dense layers and no snapshot in progress.
  void Resize(const Config& config, const ModelShape& shape);
  const EngineStats& stats() const { return stats_; }

  // partial[i] = sum over the features f of sample i that live here of x_if * E_f. Fills *batch
  // with them. Synchronous training adds the features up in fixed point. REQUIRES feature ids <= D.
  PartialSum Embed(const SparseRows& features, InputBatch* batch);

  // Has the rows read that Embed() will need, if they are in a file. REQUIRES feature ids <= D.
  void ReadAhead(const SparseRows& features) const;

  // Embed(), and the rows of dense layers that live here if they are asked for.
  EmbedReply Answer(const EmbedRequest& request, InputBatch* batch);

  // Calls take() with dL/dE_f = sum_i x_if * gradient_i. Feature-major: once for each distinct row,
  // while the row is being prefetched. Then with the gradients of dense layers.
  void Gradient(const InputBatch& batch, const EmbedPush& push, const RowGradientSink& take);
  // Why the gradients of dense layers are not those of the rows here; empty: they are.
  std::string WhyNotDense(const std::optional<LayerRows>& dense) const;

  // Draws the rows that live here.
  void Initialise(const Config& config);

  // The rows of dense layers that live here.
  LayerRows DenseRows() const;

  // One optimiser step on a row.
  void Update(uint32_t row, float learning_rate, const float* gradient);

 private:
  std::vector<uint32_t> LocalRows(const SparseRows& features) const;
  template <typename Each>
  void ForEachDense(const Each& each) const;

  const Kernels& kernels_;
  uint32_t bias_id_;
  std::vector<DenseRowStart> dense_;  // [R]
  float dense_rate_;
  bool synchronous_;
  Layer layer_;
  EngineStats stats_;
  // A batch by features: its distinct rows are numbered.
  RowNumbers numbers_;
  std::vector<uint32_t> numbered_;  // [entries] the number of each entry's row
  SparseMatrix by_row_;             // columns are samples
};

}  // namespace dslide
