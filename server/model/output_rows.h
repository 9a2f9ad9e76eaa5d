// The output neurons of one executor as the scorers see them: rows to read and to update, and the
// hash tables that follow the updates. Owned by one executor thread.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "server/model/lsh/live_tables.h"
#include "server/rows/layer.h"

namespace dslide {

struct OutputRows {
  Layer layer;
  std::optional<LiveTables> tables = {};
  std::unique_ptr<LiveTables> next = {};  // being built to replace `tables`; null: none

  // One optimiser step on a row, given the gradients of its weights ([H]) and of its bias.
  void Update(uint32_t row, float learning_rate, const float* gradient, float bias_gradient) {
    layer.Update(row, learning_rate, gradient, bias_gradient, true);
    Touch(row);
  }
  // The weights of a row have changed.
  void Touch(uint32_t row) {
    if (tables) tables->Touch(row);
    if (next) next->Touch(row);
  }
};

}  // namespace dslide
