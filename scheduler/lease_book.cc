#include "scheduler/lease_book.h"

#include <algorithm>

#include "common/base/check.h"

namespace dslide {

LeaseBook::LeaseBook(uint64_t batches, uint32_t unit_batches)
    : batches_(batches), unit_batches_(unit_batches), done_(batches, 0) {
  DSLIDE_CHECK(unit_batches > 0);
  for (uint64_t first = 0; first < batches; first += unit_batches) {
    open_.insert(static_cast<uint32_t>(first / unit_batches));
  }
}

uint32_t LeaseBook::UnitSize(uint32_t unit) const {
  const uint64_t first = FirstBatch(unit);
  if (first >= batches_) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(unit_batches_, batches_ - first));
}

bool LeaseBook::IsDone(uint32_t unit, uint32_t index) const {
  return index < UnitSize(unit) && done_[FirstBatch(unit) + index] != 0;
}

bool LeaseBook::UnitDone(uint32_t unit) const {
  for (uint32_t i = 0; i < UnitSize(unit); ++i) {
    if (!IsDone(unit, i)) return false;
  }
  return true;
}

bool LeaseBook::Mark(uint32_t unit, uint32_t index) {
  if (index >= UnitSize(unit) || IsDone(unit, index)) return false;
  done_[FirstBatch(unit) + index] = 1;
  done_count_++;
  if (UnitDone(unit)) open_.erase(unit);
  return true;
}

std::optional<Lease> LeaseBook::Grant(const std::string& holder, int64_t now_ms, uint64_t open,
                                      uint64_t end, uint64_t share) {
  if (open_.empty()) return std::nullopt;
  const uint64_t first = FirstBatch(*open_.begin());
  if (first >= end) return std::nullopt;
  const auto waits = [&](const auto& entry) {
    return entry.second.holder == holder && FirstBatch(entry.second.unit) >= open;
  };
  if (first >= open &&
      static_cast<uint64_t>(std::count_if(leases_.begin(), leases_.end(), waits)) >= share) {
    return std::nullopt;
  }
  Lease lease;
  lease.id = next_lease_++;
  lease.unit = *open_.begin();
  open_.erase(open_.begin());
  for (uint32_t i = 0; i < UnitSize(lease.unit); ++i) {
    if (!IsDone(lease.unit, i)) lease.batches.push_back(i);
  }
  leases_[lease.id] = {holder, lease.unit, now_ms};
  return lease;
}

bool LeaseBook::Done(uint64_t lease, uint32_t unit, uint32_t index, int64_t now_ms) {
  const bool counts = Mark(unit, index);
  const auto held = leases_.find(lease);
  if (held != leases_.end() && held->second.unit == unit) {
    held->second.renewed_ms = now_ms;
    if (UnitDone(unit)) leases_.erase(held);
  }
  return counts;
}

template <typename Predicate>
size_t LeaseBook::EndWhere(Predicate predicate) {
  return std::erase_if(leases_, [&](const auto& entry) {
    if (!predicate(entry.second)) return false;
    if (!UnitDone(entry.second.unit)) open_.insert(entry.second.unit);
    return true;
  });
}

size_t LeaseBook::Return(const std::string& holder) {
  return EndWhere([&](const Held& held) { return held.holder == holder; });
}

void LeaseBook::RenewFrom(uint64_t begin, int64_t now_ms) {
  for (auto& [id, held] : leases_) {
    if (FirstBatch(held.unit) >= begin) held.renewed_ms = now_ms;
  }
}

size_t LeaseBook::Expire(int64_t now_ms, int64_t timeout_ms) {
  return EndWhere([&](const Held& held) { return now_ms - held.renewed_ms > timeout_ms; });
}

}  // namespace dslide
