// The output neurons of one executor as the scorers see them: rows to read and to update, and the
// index that follows the updates. Owned by one executor thread.
#pragma once

#include <optional>
#include <span>

#include "server/model/lsh/neuron_index.h"
#include "server/rows/layer.h"

namespace dslide {

struct OutputRows {
  Layer layer;
  std::optional<NeuronIndex> index = {};  // HasNeuronIndex()

  // One optimiser step on a row, given the gradients of its weights ([H]) and of its bias.
  void Update(uint32_t row, float learning_rate, const float* gradient, float bias_gradient) {
    layer.Update(row, learning_rate, gradient, bias_gradient, true);
    Touch(row);
  }
  // The weights of a row have changed.
  void Touch(uint32_t row) {
    if (index) index->Touch(row);
  }
};

}  // namespace dslide
