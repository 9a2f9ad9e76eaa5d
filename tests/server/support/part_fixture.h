// What a part of a ServerCore needs: a seat in a plan of two servers, and an outbox.
#pragma once

#include <doctest/doctest.h>

#include "common/run/slot_plan.h"
#include "server/base/outbox.h"
#include "server/base/seat.h"
#include "tests/server/support/test_batches.h"
#include "tests/support/tickets.h"

namespace dslide {

struct PartFixture {
  static constexpr Incarnation kSelf{1}, kOther{8}, kWorker{5};

  // Slots 0 to 3 are the other server's, 4 to 7 this one's, on two executors.
  PartFixture() {
    Config config = SmallConfig(30, 20, 4);
    config.train.batch = 10;
    seat = {config,
            100,
            kSelf,
            2,
            EqualPlan(1, config.cluster.slots, {{"server", "a", kOther}, {"server-2", "b", kSelf}}),
            1,
            testing::KeysOfServer()};
    out.set_plan_version(1);
  }

  ServerSeat seat;
  ServerOutbox out{kSelf};
};

}  // namespace dslide
