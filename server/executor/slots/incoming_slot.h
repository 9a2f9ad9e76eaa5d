// A slot that arrives from another executor: its rows go into a region that is reserved for it.
// Owned by one executor thread.
#pragma once

#include <array>
#include <optional>

#include "common/base/error.h"
#include "common/wire/messages.h"
#include "server/executor/batches/applied_batches.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"

namespace dslide {

class IncomingSlot {
 public:
  // `input` and `output`, which have reserved the slot, must outlive this.
  IncomingSlot(SlotId slot, InputLayer* input, OutputLayer* output);

  // Takes the rows of a part; a row that comes again replaces what came before. Errors (kBadInput)
  // name the slot and the row, and nothing is taken.
  Status Put(const SlotRows& part);

  // Why the slot cannot become part of a model yet; empty: it has all rows, as they will stay.
  std::string WhyNotComplete() const;
  // REQUIRES that it is complete.
  const SlotHistory& history() const { return *history_; }

 private:
  Status Check(const SlotRows& part) const;
  Layer& LayerOf(LayerKind kind) const {
    return kind == LayerKind::kInput ? input_.layer() : output_.layer();
  }

  SlotId slot_;
  InputLayer& input_;
  OutputLayer& output_;
  std::array<RowSet, 2> missing_;       // by LayerKind: rows that never came
  std::optional<SlotHistory> history_;  // came with the last part
};

}  // namespace dslide
