#include "server/core/seat.h"

#include "common/base/check.h"
#include "server/rows/slot_map.h"

namespace dslide {

uint64_t ServerSeat::OwnRows() const {
  uint64_t rows = 0;
  for (const SlotId slot : OwnSlots()) {
    for (const uint32_t ids : {config.model.features + 1, config.model.labels}) {
      rows += SlotMap::SlotSize(ids, config.cluster.slots, slot);
    }
  }
  return rows;
}

void ServerSeat::CheckInvariants() const {
  DSLIDE_CHECK(plan.slot_owner.size() == config.cluster.slots);
  DSLIDE_CHECK(executors > 0 && executors <= config.cluster.slots);
  DSLIDE_CHECK(!index || plan.servers.at(*index).incarnation == self);
}

}  // namespace dslide
