// The rows of a layer that have not taken a part of a batch yet.
#pragma once

#include <cstdint>

#include "server/executor/batches/applied_batches.h"
#include "server/rows/slot_map.h"

namespace dslide {

class NotYetApplied {
 public:
  // `applied` and `map` must outlive this, unchanged.
  NotYetApplied(const AppliedBatches& applied, Part part, uint64_t batch, const SlotMap& map)
      : applied_(applied),
        part_(part),
        batch_(batch),
        map_(map),
        share_(applied.Has(part, batch)) {}

  bool any() const { return share_ != AppliedBatches::Share::kAll; }
  bool Has(uint32_t row) const {
    return share_ == AppliedBatches::Share::kNone ||
           (any() && !applied_.Has(part_, batch_, map_.SlotOf(row)));
  }

 private:
  const AppliedBatches& applied_;
  Part part_;
  uint64_t batch_;
  const SlotMap& map_;
  AppliedBatches::Share share_;
};

}  // namespace dslide
