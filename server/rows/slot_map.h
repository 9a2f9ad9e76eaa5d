// Which ids (neurons or features) live in an executor, and at which local index.
//
// Ids are spread over the slots of a range (common/run/slot_rows.h). The owner keeps each of its
// slots in a region of fixed size, so that a slot comes or goes without moving the others: local
// index = region * rows_per_slot + row. A region's last row may have no id. Slots outside of the
// range come and go like the others, with a region of no rows at local index 0.
//
// The life of a slot here: Reserve() gives it a region, Attach() makes it part of the model,
// Detach() takes it out of the model, Release() frees the region. A free region goes to the next
// slot reserved.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/ids.h"
#include "common/run/slot_rows.h"

namespace dslide {

class SlotMap {
 public:
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr SlotId kNoSlot{kNone};
  static constexpr uint64_t kSpare = 4;  // one row in so many of a region that was widened

  // Ids [0, total) over those of the model's `slots` slots that `range` has; the slots `owned`
  // (ascending) live here, in this order.
  // REQUIRES total < 2^32.
  SlotMap(uint64_t total, uint32_t slots, const SlotRange& range, std::span<const SlotId> owned)
      : total_(static_cast<uint32_t>(total)),
        slots_(slots),
        range_(range),
        rows_per_slot_(static_cast<uint32_t>((total + range.count - 1) / range.count)),
        region_(slots, kNone),
        attached_(slots, 0) {
    DSLIDE_CHECK(total == total_);
    for (const SlotId slot : owned) {
      Reserve(slot);
      Attach(slot);
    }
  }
  // Over all slots.
  SlotMap(uint64_t total, uint32_t slots, std::span<const SlotId> owned)
      : SlotMap(total, slots, {0, slots}, owned) {}

  uint32_t slots() const { return slots_; }  // of the whole model
  uint32_t total() const { return total_; }
  uint32_t rows_per_slot() const { return rows_per_slot_; }
  uint32_t size() const { return size_; }  // ids that live here
  // Bound of the local indices; those in free regions and of slots not attached have no id.
  uint32_t rows() const { return static_cast<uint32_t>(layout_.size()) * rows_per_slot_; }
  // Regions with rows that are not free.
  uint32_t regions() const {
    return static_cast<uint32_t>(layout_.size() -
                                 static_cast<size_t>(std::ranges::count(layout_, kNoSlot)));
  }
  // rows() if all slots lived here.
  uint32_t all_rows() const { return range_.count * rows_per_slot_; }
  // Attached slots, ascending.
  std::span<const SlotId> owned() const { return owned_; }
  // The attached slot of each region with rows; kNoSlot where there is none.
  std::vector<SlotId> Layout() const {
    std::vector<SlotId> layout = layout_;
    for (SlotId& slot : layout) {
      if (slot != kNoSlot && !Owns(slot)) slot = kNoSlot;
    }
    return layout;
  }

  // Ids of one slot: rows [0, SlotSize(slot)).
  uint32_t SlotSize(SlotId slot) const {
    return static_cast<uint32_t>(RowsOfSlot(total_, range_, slot));
  }
  // What the slot's region has: rows_per_slot(), or 0.
  uint32_t RegionRows(SlotId slot) const { return range_.Has(slot) ? rows_per_slot_ : 0; }

  bool Owns(SlotId slot) const { return slot.value < slots_ && attached_[slot.value] != 0; }
  // Whether the slot has a region, attached or not.
  bool HasRegion(SlotId slot) const { return slot.value < slots_ && region_[slot.value] != kNone; }

  // The local index of a row of a slot. REQUIRES that the slot has a region, row < SlotSize(slot).
  uint32_t LocalRow(SlotId slot, uint32_t row) const {
    return region_[slot.value] * rows_per_slot_ + row;
  }

  // Local index of the slot's first row. REQUIRES that the slot has a region.
  uint32_t RegionBegin(SlotId slot) const { return LocalRow(slot, 0); }

  // The slot of a local index. REQUIRES row < rows() in a region that is not free.
  SlotId SlotOf(uint32_t row) const { return layout_[row / rows_per_slot_]; }
  // The row within the slot of a local index.
  uint32_t RowInSlot(uint32_t row) const { return row % rows_per_slot_; }

  // The local index of `id`, kNone if it lives elsewhere. REQUIRES id < total().
  uint32_t Local(uint32_t id) const {
    const uint32_t slot = range_.SlotOf(id).value;
    return attached_[slot] == 0 ? kNone : region_[slot] * rows_per_slot_ + id / range_.count;
  }

  // The id at local index `row`, kNone for padding and where no slot is attached. REQUIRES row <
  // rows().
  uint32_t Global(uint32_t row) const {
    const SlotId slot = layout_[row / rows_per_slot_];
    if (slot == kNoSlot || attached_[slot.value] == 0) return kNone;
    return IdAt(row);
  }

  // The same of slots that have a region, attached or not.
  uint32_t IdAt(uint32_t row) const {
    const SlotId slot = layout_[row / rows_per_slot_];
    if (slot == kNoSlot) return kNone;
    const uint32_t id = (row % rows_per_slot_) * range_.count + slot.value - range_.first;
    return id < total_ ? id : kNone;
  }

  // There are ids up to `total`. True: regions have more rows than before, so that all local
  // indices change. They have some to spare then. REQUIRES total >= total().
  bool Widen(uint64_t total) {
    DSLIDE_CHECK(total >= total_ && total < kNone);
    total_ = static_cast<uint32_t>(total);
    size_ = 0;
    for (const SlotId slot : owned_) size_ += SlotSize(slot);
    const uint64_t rows = (total + range_.count - 1) / range_.count;
    if (rows <= rows_per_slot_) return false;
    rows_per_slot_ = static_cast<uint32_t>(rows + rows / kSpare);
    return true;
  }

  // Gives a slot a region; rows() may grow. REQUIRES that the slot has none.
  void Reserve(SlotId slot) {
    DSLIDE_CHECK(slot.value < slots_ && !HasRegion(slot));
    if (!range_.Has(slot)) {
      region_[slot.value] = 0;
      return;
    }
    auto region = std::find(layout_.begin(), layout_.end(), kNoSlot);
    if (region == layout_.end()) region = layout_.insert(region, kNoSlot);
    *region = slot;
    region_[slot.value] = static_cast<uint32_t>(region - layout_.begin());
  }
  // REQUIRES that the slot has a region and is not attached.
  void Attach(SlotId slot) {
    DSLIDE_CHECK(HasRegion(slot) && !Owns(slot));
    attached_[slot.value] = 1;
    owned_.insert(std::lower_bound(owned_.begin(), owned_.end(), slot), slot);
    size_ += SlotSize(slot);
  }
  void Detach(SlotId slot) {
    DSLIDE_CHECK(Owns(slot));
    attached_[slot.value] = 0;
    owned_.erase(std::lower_bound(owned_.begin(), owned_.end(), slot));
    size_ -= SlotSize(slot);
  }
  // REQUIRES that the slot has a region and is not attached.
  void Release(SlotId slot) {
    DSLIDE_CHECK(HasRegion(slot) && !Owns(slot));
    if (range_.Has(slot)) layout_[region_[slot.value]] = kNoSlot;
    region_[slot.value] = kNone;
  }
  // REQUIRES that the last region is free.
  void DropLastRegion() {
    DSLIDE_CHECK(!layout_.empty() && layout_.back() == kNoSlot);
    layout_.pop_back();
  }

 private:
  uint32_t total_;
  uint32_t slots_;
  SlotRange range_;
  uint32_t rows_per_slot_;
  uint32_t size_ = 0;
  std::vector<SlotId> owned_;
  std::vector<SlotId> layout_;     // by region; kNoSlot: free
  std::vector<uint32_t> region_;   // [slots]; kNone: no region
  std::vector<uint8_t> attached_;  // [slots]
};

}  // namespace dslide
