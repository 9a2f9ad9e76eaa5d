#include "server/executor/batches/applied_batches.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"

namespace dslide {

BatchSet::BatchSet(std::vector<uint64_t> words) : words_(std::move(words)) {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

void BatchSet::Add(uint64_t batch) {
  if (batch / 64 >= words_.size()) words_.resize(batch / 64 + 1);
  words_[batch / 64] |= uint64_t{1} << batch % 64;
}

uint64_t BatchSet::size() const {
  uint64_t size = 0;
  for (const uint64_t word : words_) size += static_cast<uint64_t>(std::popcount(word));
  return size;
}

AppliedBatches::AppliedBatches(std::span<const SlotId> slots)
    : AppliedBatches(std::vector<Group>{{{slots.begin(), slots.end()}, {}}}) {}

AppliedBatches::AppliedBatches(std::vector<Group> groups) : groups_(std::move(groups)) { Merge(); }

void AppliedBatches::Merge() {
  std::vector<Group> merged;
  for (Group& group : groups_) {
    if (group.slots.empty()) continue;
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Group& other) {
      return other.batches == group.batches;
    });
    if (same == merged.end()) {
      merged.push_back(std::move(group));
    } else {
      same->slots.insert(same->slots.end(), group.slots.begin(), group.slots.end());
    }
  }
  groups_ = std::move(merged);
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::sort(groups_[g].slots.begin(), groups_[g].slots.end());
    for (const SlotId slot : groups_[g].slots) {
      if (slot.value >= group_of_.size()) group_of_.resize(slot.value + 1);
      group_of_[slot.value] = static_cast<uint32_t>(g);
    }
  }
}

void AppliedBatches::AddGroup(Group group) {
  groups_.push_back(std::move(group));
  Merge();
}

std::array<BatchSet, kParts> AppliedBatches::Remove(SlotId slot) {
  Group& group = groups_[group_of_[slot.value]];
  DSLIDE_CHECK(std::erase(group.slots, slot) == 1);
  std::array<BatchSet, kParts> taken = group.batches;
  Merge();
  return taken;
}

AppliedBatches::Share AppliedBatches::Has(Part part, uint64_t batch) const {
  size_t having = 0;
  for (const Group& group : groups_) having += group.batches[static_cast<size_t>(part)].Has(batch);
  if (having == 0) return Share::kNone;
  return having == groups_.size() ? Share::kAll : Share::kSome;
}

void AppliedBatches::Add(Part part, uint64_t batch) {
  DSLIDE_CHECK(Has(part, batch) != Share::kAll);
  for (Group& group : groups_) group.batches[static_cast<size_t>(part)].Add(batch);
  additions_[static_cast<size_t>(part)]++;
}

}  // namespace dslide
