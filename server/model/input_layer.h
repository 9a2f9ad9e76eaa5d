// The input rows E_f of one executor: partial pre-activations and their gradient.
//
// The hidden bias b1 is the row of feature D (value 1 in every sample, added by the worker), so the
// layer has D + 1 ids. Owned by one executor thread.
#pragma once

#include <vector>

#include "common/wire/messages.h"
#include "server/model/engine_stats.h"
#include "server/model/gradient_sums.h"
#include "server/rows/layer.h"
#include "server/rows/row_numbers.h"

namespace dslide {

// A batch's features that live here: sample i has entries [offsets[i], offsets[i+1]).
struct InputBatch {
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> rows;  // local
  std::vector<float> values;
};

class InputLayer {
 public:
  InputLayer(const Config& config, std::span<const SlotId> slots, Purpose purpose,
             const Kernels& kernels);

  Layer& layer() { return layer_; }
  const Layer& layer() const { return layer_; }
  // Call when layer().map() changed.
  void FollowMap() { numbers_.Grow(layer_.map().rows()); }
  const EngineStats& stats() const { return stats_; }

  // partial[i] = sum over the features f of sample i that live here of x_if * E_f. Fills *batch
  // with them. Synchronous training adds the features up in fixed point. REQUIRES feature ids <= D.
  PartialSum Embed(const SparseRows& features, InputBatch* batch);

  // Calls take() with dL/dE_f = sum_i x_if * gradient_i. Feature-major: once for each distinct row,
  // while the row is being prefetched.
  void Gradient(const InputBatch& batch, const Matrix& gradient, const RowGradientSink& take);

  // One optimiser step on a row.
  void Update(uint32_t row, float learning_rate, const float* gradient);

 private:
  void Sum(const InputBatch& batch, uint32_t sample, Matrix* partial) const;
  void Sum(const InputBatch& batch, uint32_t sample, FixedMatrix* partial) const;
  // Fills `partial`, which is 0.
  template <typename M>
  void SumAll(const SparseRows& features, InputBatch* batch, M* partial) const;
  void Invert(const InputBatch& batch);

  const Kernels& kernels_;
  uint32_t bias_id_;
  bool synchronous_;
  Layer layer_;
  EngineStats stats_;
  // The batch by features: the distinct row with number u has entries [offsets_[u], offsets_[u+1]),
  // samples in order.
  RowNumbers numbers_;
  std::vector<uint32_t> offsets_;
  std::vector<uint32_t> samples_;
  std::vector<float> values_;
};

}  // namespace dslide
