// Which ids (neurons or features) live here, and where.
//
// Ids are spread over V slots: slot = id mod V, row within the slot = id div V. An owner of some
// slots keeps them in regions of equal size, so that a slot can come or go without moving the
// others: local index = region * rows_per_slot + row. A region's last row may have no id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/ids.h"

namespace dslide {

class SlotMap {
 public:
  static constexpr uint32_t kNone = 0xffffffffu;

  // Ids [0, total) over `slots` slots, of which `owned` (ascending) live here, in this order.
  SlotMap(uint32_t total, uint32_t slots, std::span<const SlotId> owned)
      : total_(total),
        slots_(slots),
        rows_per_slot_((total + slots - 1) / slots),
        owned_(owned.begin(), owned.end()),
        region_(slots, kNone) {
    for (size_t i = 0; i < owned_.size(); ++i) {
      DSLIDE_CHECK(owned_[i].value < slots);
      region_[owned_[i].value] = static_cast<uint32_t>(i);
      size_ += SlotSize(owned_[i]);
    }
  }

  uint32_t slots() const { return slots_; }  // of the whole model
  uint32_t total() const { return total_; }
  uint32_t size() const { return size_; }  // ids that live here
  uint32_t rows() const { return static_cast<uint32_t>(owned_.size()) * rows_per_slot_; }
  std::span<const SlotId> owned() const { return owned_; }

  // Ids of one slot: rows [0, SlotSize(slot)).
  uint32_t SlotSize(SlotId slot) const {
    return slot.value < total_ ? (total_ - slot.value - 1) / slots_ + 1 : 0;
  }

  bool Owns(SlotId slot) const { return slot.value < slots_ && region_[slot.value] != kNone; }

  // The local index of a row of an owned slot. REQUIRES that the slot is owned, row <
  // SlotSize(slot).
  uint32_t LocalRow(SlotId slot, uint32_t row) const {
    return region_[slot.value] * rows_per_slot_ + row;
  }

  // The slot of a local index. REQUIRES row < rows().
  SlotId SlotOf(uint32_t row) const { return owned_[row / rows_per_slot_]; }
  // The row within the slot of a local index.
  uint32_t RowInSlot(uint32_t row) const { return row % rows_per_slot_; }

  // The local index of `id`, kNone if it lives elsewhere. REQUIRES id < total().
  uint32_t Local(uint32_t id) const {
    const uint32_t region = region_[id % slots_];
    return region == kNone ? kNone : region * rows_per_slot_ + id / slots_;
  }

  // The id at local index `row`, kNone for a region's padding. REQUIRES row < rows().
  uint32_t Global(uint32_t row) const {
    const uint32_t id = (row % rows_per_slot_) * slots_ + owned_[row / rows_per_slot_].value;
    return id < total_ ? id : kNone;
  }

 private:
  uint32_t total_;
  uint32_t slots_;
  uint32_t rows_per_slot_;
  uint32_t size_ = 0;
  std::vector<SlotId> owned_;
  std::vector<uint32_t> region_;  // [slots], kNone if not owned
};

}  // namespace dslide
