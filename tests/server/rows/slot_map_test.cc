// Slots that come and go in a slot map, against sets.
#include "server/rows/slot_map.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "common/base/random.h"

namespace dslide::slot_map_test {
namespace {

constexpr uint32_t kTotal = 103, kSlots = 10;

TEST_CASE("slot map: a slot is part of the model from Attach() to Detach()") {
  SlotMap map(kTotal, kSlots, std::vector<SlotId>{{2}, {7}});
  CHECK(map.rows() == 22);
  CHECK(map.regions() == 2);
  map.Reserve({4});
  CHECK(map.rows() == 33);
  CHECK(map.HasRegion({4}));
  CHECK_FALSE(map.Owns({4}));
  CHECK(map.Local(4) == SlotMap::kNone);
  CHECK(map.LocalRow({4}, 3) == 25);
  CHECK(map.SlotOf(25) == SlotId{4});
  CHECK(map.Global(25) == SlotMap::kNone);
  CHECK(map.size() == 11 + 10);
  CHECK(map.Layout() == std::vector<SlotId>{{2}, {7}, SlotMap::kNoSlot});
  map.Attach({4});
  CHECK(map.Local(34) == 25);
  CHECK(map.Global(25) == 34);
  CHECK(map.size() == 11 + 10 + 10);
  CHECK(std::vector(map.owned().begin(), map.owned().end()) == std::vector<SlotId>{{2}, {4}, {7}});
  CHECK(map.Layout() == std::vector<SlotId>{{2}, {7}, {4}});
  map.Detach({2});
  CHECK(map.HasRegion({2}));
  CHECK(map.Local(2) == SlotMap::kNone);
  CHECK(map.Global(0) == SlotMap::kNone);
  CHECK(map.Layout() == std::vector<SlotId>{SlotMap::kNoSlot, {7}, {4}});
}

TEST_CASE("slot map: a free region goes to the next slot") {
  SlotMap map(kTotal, kSlots, std::vector<SlotId>{{0}, {1}, {2}});
  map.Detach({1});
  map.Release({1});
  CHECK(map.regions() == 2);
  CHECK_FALSE(map.HasRegion({1}));
  map.Reserve({9});
  CHECK(map.rows() == 33);
  CHECK(map.RegionBegin({9}) == 11);
  map.Reserve({1});
  CHECK(map.RegionBegin({1}) == 33);
  CHECK(map.rows() == 44);
}

TEST_CASE("slot map: a slot outside of the range comes and goes, and has no rows") {
  SlotMap map(50, kSlots, {6, 4}, std::vector<SlotId>{{1}, {7}});
  CHECK(map.rows_per_slot() == 13);
  CHECK(map.all_rows() == 52);
  CHECK(map.rows() == 13);
  CHECK(map.size() == 13);
  CHECK(map.Owns({1}));
  CHECK(map.RegionRows({1}) == 0);
  CHECK(map.SlotSize({1}) == 0);
  CHECK(map.SlotSize({7}) == 13);
  CHECK(map.SlotSize({8}) == 12);
  CHECK(map.Layout() == std::vector<SlotId>{{7}});
  for (uint32_t id = 0; id < 50; ++id) {
    CAPTURE(id);
    CHECK(map.Local(id) == (id % 4 == 1 ? id / 4 : SlotMap::kNone));
  }
  CHECK(map.Global(2) == 9);
  map.Detach({1});
  CHECK(map.HasRegion({1}));
  map.Release({1});
  CHECK_FALSE(map.HasRegion({1}));
  CHECK(map.Layout() == std::vector<SlotId>{{7}});
  map.Reserve({5});
  map.Attach({5});
  CHECK(map.rows() == 13);
  CHECK(std::vector(map.owned().begin(), map.owned().end()) == std::vector<SlotId>{{5}, {7}});
}

TEST_CASE("slot map: ids and local rows match after any changes") {
  enum class State { kAway, kReserved, kAttached, kDetached };
  Random random(5);
  SlotMap map(kTotal, kSlots, std::vector<SlotId>{{1}, {3}});
  std::map<uint32_t, State> states = {{1, State::kAttached}, {3, State::kAttached}};
  for (int n = 0; n < 500; ++n) {
    const auto slot = static_cast<uint32_t>(random.Below(kSlots));
    switch (State& state = states[slot]; state) {
      case State::kAway:
        map.Reserve({slot});
        state = State::kReserved;
        break;
      case State::kReserved:
        map.Attach({slot});
        state = State::kAttached;
        break;
      case State::kAttached:
        map.Detach({slot});
        state = State::kDetached;
        break;
      case State::kDetached:
        map.Release({slot});
        state = State::kAway;
        break;
    }
    std::set<uint32_t> here, regions;
    uint32_t size = 0;
    for (uint32_t s = 0; s < kSlots; ++s) {
      const State state = states[s];
      CHECK(map.Owns({s}) == (state == State::kAttached));
      CHECK(map.HasRegion({s}) == (state != State::kAway));
      if (state != State::kAway) regions.insert(map.RegionBegin({s}));
      if (state == State::kAttached) size += map.SlotSize({s});
    }
    CHECK(regions.size() == map.regions());
    CHECK(map.size() == size);
    for (uint32_t id = 0; id < kTotal; ++id) {
      const uint32_t local = map.Local(id);
      REQUIRE((local != SlotMap::kNone) == (states[id % kSlots] == State::kAttached));
      if (local == SlotMap::kNone) continue;
      REQUIRE(map.Global(local) == id);
      here.insert(local);
    }
    for (uint32_t row = 0; row < map.rows(); ++row) {
      REQUIRE((map.Global(row) != SlotMap::kNone) == here.contains(row));
    }
  }
}

}  // namespace
}  // namespace dslide::slot_map_test
