// How much is copied of a slot whose rows change meanwhile.
#include "server/executor/slots/slot_sender.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "tests/server/support/test_batches.h"

namespace dslide::slot_sender_test {
namespace {

constexpr uint32_t kRows = 2000;  // of a slot, in both layers
const SlotId kSlot{1};

struct Source {
  Source() {
    REQUIRE(output.layer().map().SlotSize(kSlot) == kRows / 2);
    REQUIRE(input.layer().map().SlotSize(kSlot) == kRows / 2);
  }
  void Change(uint32_t row) {
    Layer& layer = row < kRows / 2 ? input.layer() : output.layer();
    layer.changed().BeforeChange(layer.map().LocalRow(kSlot, row % (kRows / 2)));
  }
  // A part; how many rows it has.
  size_t Copy(bool cold, uint32_t max_bytes = 1000) {
    const auto part = source.Pull({kSlot.value, next++, cold, max_bytes, false});
    REQUIRE(part.has_value());
    left = part->left;
    last = part->last;
    for (size_t i = 0; i < part->rows.size(); ++i) {
      const uint32_t row = part->rows[i] + (i < part->input_rows ? 0 : kRows / 2);
      times[row]++;
    }
    rows += part->rows.size();
    return part->rows.size();
  }
  void Depart() {
    source.Depart(kSlot, {});
    while (!last) Copy(false);
    CHECK(left == 0);
    CHECK(std::ranges::all_of(times, [](uint32_t n) { return n > 0; }));
  }

  Config config = SmallConfig(7999, 8000, 4);
  std::vector<SlotId> slots = AllSlots(config);
  InputLayer input{config, slots, Purpose::kTraining, BestKernels()};
  OutputLayer output{config, slots, Purpose::kTraining, BestKernels()};
  SlotSender source{&input, &output};
  uint32_t next = 0;
  std::vector<uint32_t> times = std::vector<uint32_t>(kRows);
  size_t rows = 0;
  uint32_t left = 0;
  bool last = false;
};

TEST_CASE_FIXTURE(Source, "rows that change all the time are copied once, at the end") {
  Random random(3);
  // 1 row in 20 changes with every batch.
  const auto train = [&](int batches) {
    for (int n = 0; n < batches; ++n) {
      for (uint32_t row = 0; row < kRows; row += 20) Change(row);
      source.FollowBatch();
    }
  };
  Copy(true, 1);
  train(2);
  while (Copy(true) > 0) train(1);
  CHECK(left == kRows / 20);
  train(100);
  CHECK(Copy(true) == 0);
  Depart();
  CHECK(rows <= kRows + 1);
}

TEST_CASE_FIXTURE(Source, "a row that rests after a while is copied then, once") {
  const auto rest = [&] {
    for (uint32_t n = 0; n < 2 * SlotSender::kRestBatches; ++n) source.FollowBatch();
  };
  Copy(true, 1);
  Change(1999);
  source.FollowBatch();
  while (Copy(true) > 0) {
  }
  CHECK(times[1999] == 0);
  CHECK(left == 1);
  rest();
  CHECK(Copy(true) == 1);
  CHECK(times[1999] == 1);
  // But not a second time.
  Change(5);
  rest();
  CHECK(Copy(true) == 0);
  CHECK(left == 1);
  Depart();
  CHECK(times[5] == 2);
  CHECK(rows == kRows + 1);
}

TEST_CASE_FIXTURE(Source,
                  "no more is copied when much was copied in vain, and no row more than twice") {
  Random random(3);
  size_t copied = 1;
  for (int n = 0; n < 400; ++n) {
    for (int i = 0; i < 10; ++i) Change(static_cast<uint32_t>(random.Below(kRows)));
    source.FollowBatch();
    copied = Copy(true);
  }
  CHECK(copied == 0);
  Depart();
  CHECK(std::ranges::all_of(times, [](uint32_t n) { return n <= 2; }));
}

TEST_CASE_FIXTURE(Source, "nothing is followed when nothing is copied") {
  CHECK(source.copies() == 0);
  Copy(true);
  CHECK(source.copies() == 1);
  source.ForgetAttached();
  CHECK(source.copies() == 0);
  Change(7);
  CHECK_FALSE(source.Pull({kSlot.value, 1, true, 1000, false}));
  source.Depart(kSlot, {});
  next = 0;
  rows = 0;
  while (!last) Copy(true);  // what has departed is all at rest
  CHECK(rows == kRows);
  source.Forget(kSlot);
  CHECK(source.copies() == 0);
  CHECK_FALSE(source.Departed(kSlot));
}

TEST_CASE_FIXTURE(Source, "the copy of a slot in the model ends when it is forgotten") {
  Copy(true);
  Copy(false);
  source.ForgetAttached({2});  // of which there is no copy
  CHECK(source.copies() == 1);
  source.ForgetAttached(kSlot);
  CHECK(source.copies() == 0);
  Change(3);
  CHECK_FALSE(source.Pull({kSlot.value, next, false, 1000, false}));
  // A slot that has left stays readable.
  next = 0;
  source.Depart(kSlot, {});
  source.ForgetAttached(kSlot);
  Depart();
}

}  // namespace
}  // namespace dslide::slot_sender_test
