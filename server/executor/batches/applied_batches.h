// Which batches the rows of some slots have taken, so that none counts twice.
//
// A batch is known by its number in the run (BatchNumber of common/run/step.h) and has two
// parts: the gradients of the output rows, and those of the input rows. Slots that came from
// different shards of a checkpoint may have taken different batches; slots that have taken the same
// ones are a group. Normally there is one.
//
// Memory: a bit a batch, part and group, up to the highest number seen.
// Owned by one executor thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"

namespace dslide {

enum class Part : uint8_t { kOutput = 0, kInput = 1 };
constexpr size_t kParts = 2;

// A set of batch numbers.
class BatchSet {
 public:
  BatchSet() = default;
  // As words() gave it; zeros at the end do not matter.
  explicit BatchSet(std::vector<uint64_t> words);

  bool Has(uint64_t batch) const {
    return batch / 64 < words_.size() && (words_[batch / 64] >> batch % 64 & 1) != 0;
  }
  void Add(uint64_t batch);
  uint64_t size() const;
  // Bit b % 64 of word b / 64: batch b. The last word is not 0.
  const std::vector<uint64_t>& words() const { return words_; }
  bool operator==(const BatchSet&) const = default;

 private:
  std::vector<uint64_t> words_;
};

// What the rows of a slot have taken.
struct SlotHistory {
  std::array<BatchSet, kParts> batches;  // by Part
  std::optional<uint64_t> committed;     // steps; synchronous training
  bool operator==(const SlotHistory&) const = default;
};

class AppliedBatches {
 public:
  enum class Share { kNone, kSome, kAll };

  // Slots that have taken the same batches.
  struct Group {
    std::vector<SlotId> slots;
    std::array<BatchSet, kParts> batches;  // by Part
  };

  // No slot has taken anything.
  explicit AppliedBatches(std::span<const SlotId> slots);
  // What was stored. REQUIRES that no slot is in two groups. Groups that took the same become one.
  explicit AppliedBatches(std::vector<Group> groups);

  // Which of the slots have taken a part of a batch.
  Share Has(Part part, uint64_t batch) const;
  // REQUIRES that the slot is in a group.
  bool Has(Part part, uint64_t batch, SlotId slot) const {
    return groups_[group_of_[slot.value]].batches[static_cast<size_t>(part)].Has(batch);
  }

  // The slots that had not taken the part have now. REQUIRES that there are some.
  void Add(Part part, uint64_t batch);
  // How often a part was added since construction.
  uint64_t additions(Part part) const { return additions_[static_cast<size_t>(part)]; }

  // Slots come with what they have taken, and go. Adding REQUIRES that none of them is there,
  // removing that the slot is; it returns what that one has taken.
  void AddGroup(Group group);
  std::array<BatchSet, kParts> Remove(SlotId slot);

  // Makes one of groups that have taken the same by now.
  void Merge();
  const std::vector<Group>& groups() const { return groups_; }

 private:
  std::vector<Group> groups_;
  std::vector<uint32_t> group_of_;  // by slot
  std::array<uint64_t, kParts> additions_ = {};
};

}  // namespace dslide
