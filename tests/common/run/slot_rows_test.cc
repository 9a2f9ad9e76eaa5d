// Slots of one layer or both, counted row by row.
#include "common/run/slot_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "common/run/slot_plan.h"

namespace dslide::slot_rows_test {
namespace {

Config WithSlots(uint32_t slots, int32_t input_slots) {
  Config config;
  config.model.features = 57;
  config.model.labels = 101;
  config.cluster.slots = slots;
  config.cluster.input_slots = input_slots;
  return config;
}

TEST_CASE("every id is in one slot of its layer, and slots have the rows that they are said to") {
  for (const int32_t input_slots : {-1, 0, 1, 3, 9}) {
    CAPTURE(input_slots);
    const Config config = WithSlots(10, input_slots);
    std::vector<uint64_t> input(10), output(10);
    for (uint32_t id = 0; id < 58; ++id) input[InputSlots(config.cluster).SlotOf(id).value]++;
    for (uint32_t id = 0; id < 101; ++id) output[OutputSlots(config.cluster).SlotOf(id).value]++;
    for (uint32_t s = 0; s < 10; ++s) {
      CHECK(RowsOfSlot(58, InputSlots(config.cluster), {s}) == input[s]);
      CHECK(RowsOfSlot(101, OutputSlots(config.cluster), {s}) == output[s]);
      CHECK(RowsOfSlot(config, {s}) == input[s] + output[s]);
      if (input_slots <= 0) continue;
      CHECK((input[s] == 0) == (s < 10 - static_cast<uint32_t>(input_slots)));
      CHECK((output[s] == 0) == (input[s] != 0));
    }
  }
}

TEST_CASE("slots of few ids: those behind the last id are empty") {
  const SlotRange range{4, 6};
  CHECK(RowsOfSlot(2, range, {5}) == 1);
  CHECK(RowsOfSlot(2, range, {6}) == 0);
  CHECK(RowsOfSlot(2, range, {3}) == 0);
  CHECK(RowsOfSlot(2, range, {10}) == 0);
}

TEST_CASE("slots are divided so that each part has its share of both layers") {
  const Config config = WithSlots(32, 8);
  for (const uint32_t parts : {1u, 2u, 3u, 5u, 8u}) {
    CAPTURE(parts);
    const auto divided = DivideSlots(AllSlots(config.cluster), config.cluster, parts);
    REQUIRE(divided.size() == parts);
    std::set<SlotId> all;
    for (const std::vector<SlotId>& part : divided) {
      CHECK(std::ranges::is_sorted(part));
      const auto inputs = std::ranges::count_if(part, [](SlotId s) { return s.value >= 24; });
      CHECK(inputs >= 8 / parts);
      CHECK(inputs <= (8 + parts - 1) / parts);
      const auto outputs = static_cast<ptrdiff_t>(part.size()) - inputs;
      CHECK(outputs >= 24 / parts);
      CHECK(outputs <= (24 + parts - 1) / parts);
      all.insert(part.begin(), part.end());
    }
    CHECK(all.size() == 32);
  }
  // A slot of each layer for two parts: each has one.
  CHECK(DivideSlots({{3}, {30}}, config.cluster, 2) ==
        std::vector<std::vector<SlotId>>{{{3}}, {{30}}});
  CHECK(DivideSlots({}, config.cluster, 2) == std::vector<std::vector<SlotId>>(2));
}

TEST_CASE("a plan tells which servers have rows of a layer") {
  const Config config = WithSlots(32, 8);
  const Plan plan = EqualPlan(1, 32, std::vector<PlanServer>(5));  // 6 or 7 slots each
  CHECK(ServersWith(plan, InputSlots(config.cluster)) ==
        std::vector<bool>{false, false, false, true, true});
  CHECK(ServersWith(plan, OutputSlots(config.cluster)) ==
        std::vector<bool>{true, true, true, true, false});
  const Config both = WithSlots(32, 0);
  CHECK(ServersWith(plan, InputSlots(both.cluster)) == std::vector<bool>(5, true));
}

}  // namespace
}  // namespace dslide::slot_rows_test
