// Which slots have taken which batches, against sets.
#include "server/executor/batches/applied_batches.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "common/base/random.h"

namespace dslide::applied_batches_test {
namespace {

using Share = AppliedBatches::Share;
constexpr uint64_t kBatches = 500;

TEST_CASE("applied batches: at first none, afterwards what was added, each part for itself") {
  AppliedBatches applied(std::vector<SlotId>{{3}, {7}});
  CHECK(applied.Has(Part::kOutput, 0) == Share::kNone);
  applied.Add(Part::kOutput, 64);
  applied.Add(Part::kOutput, 63);
  CHECK(applied.Has(Part::kOutput, 64) == Share::kAll);
  CHECK(applied.Has(Part::kOutput, 65) == Share::kNone);
  CHECK(applied.Has(Part::kInput, 64) == Share::kNone);
  CHECK(applied.Has(Part::kOutput, ~uint64_t{0}) == Share::kNone);
  CHECK(applied.Has(Part::kOutput, 63, {7}));
  CHECK(applied.additions(Part::kOutput) == 2);
  CHECK(applied.additions(Part::kInput) == 0);
  CHECK(applied.groups().size() == 1);
}

TEST_CASE("applied batches: slots come with what they have taken, and go with it") {
  AppliedBatches applied(std::vector<SlotId>{{3}, {7}});
  applied.Add(Part::kOutput, 5);
  applied.AddGroup({{{90}}, {}});
  CHECK(applied.Has(Part::kOutput, 5) == Share::kSome);
  CHECK(applied.Has(Part::kOutput, 5, {7}));
  CHECK_FALSE(applied.Has(Part::kOutput, 5, {90}));
  applied.Add(Part::kOutput, 5);
  applied.Add(Part::kInput, 6);
  const auto taken = applied.Remove({7});
  CHECK(taken[0].Has(5));
  CHECK(taken[1].Has(6));
  CHECK_FALSE(taken[0].Has(6));
  CHECK(applied.groups().size() == 1);
  CHECK(applied.groups()[0].slots == std::vector<SlotId>{{3}, {90}});
  (void)applied.Remove({90});
  CHECK(applied.Remove({3}) == taken);
  CHECK(applied.groups().empty());
  CHECK(applied.Has(Part::kOutput, 5) == Share::kNone);
  applied.Add(Part::kOutput, 5);  // by nobody
  CHECK(applied.Has(Part::kOutput, 5) == Share::kNone);
  applied.AddGroup({{{7}}, taken});
  CHECK(applied.Has(Part::kOutput, 5) == Share::kAll);
}

// Random additions to random groups, by slots.
struct Reference {
  std::map<uint32_t, std::set<uint64_t>> taken[kParts];  // by slot

  Share Of(Part part, uint64_t batch, uint32_t slots) const {
    uint32_t having = 0;
    for (const auto& [slot, batches] : taken[static_cast<size_t>(part)]) {
      having += batches.contains(batch);
    }
    return having == 0 ? Share::kNone : having == slots ? Share::kAll : Share::kSome;
  }
};

TEST_CASE("applied batches: groups of slots that took different batches, at random") {
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    const auto group_count = static_cast<uint32_t>(1 + random.Below(4));
    std::vector<AppliedBatches::Group> groups(group_count);
    Reference reference;
    uint32_t slots = 0;
    for (auto& group : groups) {
      const uint64_t size = 1 + random.Below(3);
      for (uint64_t n = 0; n < size; ++n) group.slots.push_back({slots++});
      for (size_t part = 0; part < kParts; ++part) {
        for (uint64_t n = random.Below(300); n-- > 0;) {
          const uint64_t batch = random.Below(kBatches);
          group.batches[part].Add(batch);
          for (const SlotId slot : group.slots) reference.taken[part][slot.value].insert(batch);
        }
      }
    }
    AppliedBatches applied(std::move(groups));
    for (int step = 0; step < 400; ++step) {
      const auto part = static_cast<Part>(random.Below(kParts));
      const uint64_t batch = random.Below(kBatches);
      REQUIRE(applied.Has(part, batch) == reference.Of(part, batch, slots));
      for (uint32_t slot = 0; slot < slots; ++slot) {
        REQUIRE(applied.Has(part, batch, {slot}) ==
                reference.taken[static_cast<size_t>(part)][slot].contains(batch));
      }
      if (applied.Has(part, batch) == Share::kAll) continue;
      applied.Add(part, batch);
      for (uint32_t slot = 0; slot < slots; ++slot) {
        reference.taken[static_cast<size_t>(part)][slot].insert(batch);
      }
      if (step % 50 == 0) applied.Merge();
    }
    for (const auto& group : applied.groups()) {
      const auto& batches = reference.taken[0][group.slots[0].value];
      CHECK(group.batches[0].size() == batches.size());
    }
  }
}

TEST_CASE("applied batches: groups that took the same become one") {
  std::vector<AppliedBatches::Group> groups(3);
  for (uint32_t g = 0; g < 3; ++g) groups[g].slots = {{2 - g}, {g + 10}};
  groups[0].batches[0].Add(4);
  groups[2].batches[0].Add(4);
  AppliedBatches applied(std::move(groups));
  CHECK(applied.groups().size() == 2);
  CHECK(applied.groups()[0].slots == std::vector<SlotId>{{0}, {2}, {10}, {12}});
  CHECK(applied.Has(Part::kOutput, 4) == Share::kSome);
  CHECK_FALSE(applied.Has(Part::kOutput, 4, {11}));
  applied.Add(Part::kOutput, 4);
  applied.Merge();
  CHECK(applied.groups().size() == 1);
  CHECK(applied.Has(Part::kOutput, 4, {11}));
}

TEST_CASE("applied batches: a set is known by its words, whatever zeros follow") {
  BatchSet set;
  set.Add(70);
  set.Add(3);
  std::vector<uint64_t> words = set.words();
  CHECK(words == std::vector<uint64_t>{8, 64});
  words.resize(9);
  CHECK(BatchSet(words) == set);
  CHECK(set.size() == 2);
  CHECK(BatchSet({0, 0}).words().empty());
}

}  // namespace
}  // namespace dslide::applied_batches_test
