// The output neurons of one executor as the scorers see them: rows to read and to update, and the
// hash tables that follow the updates. Owned by one executor thread.
#pragma once

#include <optional>
#include <span>

#include "server/layer.h"
#include "server/lsh/live_tables.h"
#include "server/optimizer.h"

namespace dslide {

struct OutputRows {
  Layer layer;
  Optimizer optimizer;
  std::optional<LiveTables> tables;

  // One optimiser step on a row, from the gradients by its weights ([H]) and its bias.
  void Update(uint32_t row, float learning_rate, const float* gradient, float bias_gradient) {
    optimizer.Apply(learning_rate, layer.dim(), gradient, bias_gradient, true, layer.row(row));
    if (tables) tables->Touch(row);
  }
};

}  // namespace dslide
