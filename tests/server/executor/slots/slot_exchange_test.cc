#include "server/executor/slots/slot_exchange.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "common/math/kernels.h"
#include "tests/server/support/test_batches.h"

namespace dslide::slot_exchange_test {
namespace {

// An executor's slots, of a model of 4.
struct Side {
  static Config SideConfig() {
    Config config = SmallConfig(20, 10, 4);
    config.cluster.slots = 4;
    return config;
  }
  explicit Side(std::vector<SlotId> owned) : slots(std::move(owned)) {
    input.layer().Initialise(1, 1.0f, 20);
    output.layer().Initialise(1, 1.0f, 10);
  }
  std::vector<SlotId> Owned() {
    const auto owned = output.layer().map().owned();
    return {owned.begin(), owned.end()};
  }

  std::vector<SlotId> slots;
  Config config = SideConfig();
  InputLayer input{config, slots, Purpose::kTraining, BestKernels()};
  OutputLayer output{config, slots, Purpose::kTraining, BestKernels()};
  AppliedBatches applied{slots};
  SlotExchange exchange{&input, &output, &applied};
};

using Slots = std::vector<SlotId>;

constexpr SlotId kSlot{1};
const Slots kMoving = {kSlot};

SlotRows Rows(Side* from) {
  SlotPull pull;
  pull.slot = kSlot.value;
  pull.max_bytes = 1u << 20;
  return std::get<SlotRows>(from->exchange.Pull(pull));
}

TEST_CASE("a slot goes from one executor to the other with what it has taken") {
  Side from({{0}, {1}}), to({{2}, {3}});
  from.applied.Add(Part::kOutput, 17);
  CHECK(to.exchange.Reserve(kMoving).ok());
  CHECK_FALSE(to.exchange.idle());
  CHECK(from.exchange.Depart(kMoving, std::nullopt));
  CHECK(from.Owned() == Slots{{0}});
  CHECK_FALSE(from.exchange.Depart(kMoving, std::nullopt));
  CHECK_FALSE(to.exchange.Arriving(kMoving, false, std::nullopt).ok());  // no rows yet
  CHECK(to.exchange.Put(Rows(&from)).ok());
  const auto arrival = to.exchange.Arriving(kMoving, false, std::nullopt);
  REQUIRE(arrival.ok());
  CHECK(arrival->slots == kMoving);
  to.exchange.Attach(*arrival);
  CHECK(to.Owned() == Slots{{1}, {2}, {3}});
  CHECK(to.applied.Has(Part::kOutput, 17, kSlot));
  CHECK_FALSE(to.applied.Has(Part::kOutput, 17, {2}));
  CHECK(to.exchange.idle());
  from.exchange.Release(kMoving);
  SlotPull pull;
  pull.slot = kSlot.value;
  CHECK(std::holds_alternative<Ack>(from.exchange.Pull(pull)));  // it is not readable any more
  from.exchange.CheckInvariants();
  to.exchange.CheckInvariants();
}

TEST_CASE("in synchronous training a slot joins only slots of the same step") {
  Side from({{0}, {1}}), to({{2}, {3}});
  CHECK(to.exchange.Reserve(kMoving).ok());
  from.exchange.Depart(kMoving, 5);
  CHECK(to.exchange.Put(Rows(&from)).ok());
  CHECK(to.exchange.Arriving(kMoving, true, 4).error().message ==
        "slot 1 is at step 5, this executor at step 4");
  const auto arrival = to.exchange.Arriving(kMoving, true, std::nullopt);  // it has no slots
  REQUIRE(arrival.ok());
  CHECK(arrival->committed == 5);
}

TEST_CASE("what cannot be reserved changes nothing, and a place can be given up") {
  Side side({{0}, {1}});
  CHECK(side.exchange.Reserve(Slots{{2}, {0}}).error().message ==
        "slot 0 cannot be reserved: it is here");
  CHECK(side.exchange.Reserve(Slots{{4}}).error().message ==
        "slot 4 cannot be reserved: there is none");
  CHECK(side.exchange.idle());
  CHECK(side.exchange.Reserve(Slots{{2}, {3}}).ok());
  side.exchange.CheckInvariants();
  side.exchange.Discard(Slots{{2}, {3}});
  CHECK(side.exchange.idle());
  CHECK_FALSE(side.output.layer().map().HasRegion({2}));
}

}  // namespace
}  // namespace dslide::slot_exchange_test
