// Counts what requests do for the rows of each slot, into a SlotLoad.
// Owned by one executor thread.
#pragma once

#include <cstdint>

#include "server/executor/slots/slot_load.h"
#include "server/model/output_layer.h"
#include "server/rows/layer.h"

namespace dslide {

class WorkCounter {
 public:
  // All must outlive this.
  WorkCounter(SlotLoad* load, const Layer& input, const OutputLayer& output)
      : load_(*load), input_(input), output_(output) {}

  // The gradients of a batch were taken.
  void CountTaken() {
    load_.CountTaken(output_.index() == nullptr ? 0 : output_.index()->tables().build_steps());
  }
  // The last query of the output layer.
  void CountQuery(const OutputBatch& batch);
  // A ranking of `samples` samples that scores all rows, in int8 or in floats.
  void CountScan(uint32_t samples, bool int8);
  // A distinct input row of a batch.
  void CountInput(uint32_t row, bool updated) {
    SlotCounts& counts = load_.Of(input_.map().SlotOf(row));
    ++counts.input_rows;
    counts.updated += updated;
  }
  void CountUpdate(const Layer& layer, uint32_t row) {
    ++load_.Of(layer.map().SlotOf(row)).updated;
  }

 private:
  SlotLoad& load_;
  const Layer& input_;
  const OutputLayer& output_;
};

}  // namespace dslide
