#include "server/base/seat.h"

#include "common/base/check.h"
#include "common/run/slot_rows.h"

namespace dslide {

uint64_t ServerSeat::OwnRows() const { return RowsOfSlots(config, OwnSlots()); }

void ServerSeat::CheckInvariants() const {
  DSLIDE_CHECK(plan.slot_owner.size() == config.cluster.slots);
  DSLIDE_CHECK(executors > 0 && executors <= config.cluster.slots);
  DSLIDE_CHECK(!index || plan.servers.at(*index).incarnation == self);
}

}  // namespace dslide
