#include "scheduler/leases/lease_book.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/math/median.h"

namespace dslide {

LeaseBook::LeaseBook(uint64_t batches, uint32_t unit_batches, uint64_t first_lease)
    : batches_(batches),
      unit_batches_(unit_batches),
      first_lease_(first_lease),
      next_lease_(first_lease),
      done_(batches, 0),
      free_(batches) {
  DSLIDE_CHECK(unit_batches > 0);
}

uint32_t LeaseBook::UnitSize(uint32_t unit) const {
  const uint64_t first = Number(unit, 0);
  if (first >= batches_) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(unit_batches_, batches_ - first));
}

bool LeaseBook::IsDone(uint32_t unit, uint32_t index) const {
  return index < UnitSize(unit) && done_[Number(unit, index)] != 0;
}

std::vector<OpenLease> LeaseBook::OpenLeases() const {
  std::vector<OpenLease> open;
  for (const auto& [id, held] : leases_) {
    open.push_back({id, held.holder, held.unit, held.granted,
                    static_cast<uint32_t>(held.left.size()), held.granted_ms, held.renewed_ms,
                    held.copy});
  }
  return open;
}

std::vector<Incarnation> LeaseBook::HoldersOf(uint32_t unit, uint32_t index) const {
  std::vector<Incarnation> holders;
  if (index >= UnitSize(unit)) return holders;
  const auto held = holders_.find(Number(unit, index));
  if (held == holders_.end()) return holders;
  for (const uint64_t lease : held->second) {
    if (lease != 0) holders.push_back(leases_.at(lease).holder);
  }
  return holders;
}

bool LeaseBook::Mark(uint32_t unit, uint32_t index) {
  if (index >= UnitSize(unit) || IsDone(unit, index)) return false;
  const uint64_t batch = Number(unit, index);
  done_[batch] = 1;
  done_count_++;
  free_.Erase(batch);
  const auto held = holders_.find(batch);
  if (held == holders_.end()) return true;
  for (const uint64_t lease : held->second) {
    if (lease != 0) Drop(lease, batch);
  }
  holders_.erase(held);
  return true;
}

void LeaseBook::Free(uint64_t batch) {
  free_.Insert(batch);
  freed_++;
}

// Removes a done batch from a lease, which ends with its last batch.
void LeaseBook::Drop(uint64_t lease, uint64_t batch) {
  changed_ = true;
  const auto held = leases_.find(lease);
  std::vector<uint32_t>& left = held->second.left;
  left.erase(std::lower_bound(left.begin(), left.end(), PlaceInUnit(batch, unit_batches_).index));
  if (!left.empty()) return;
  Forget(held->second.holder, lease);
  leases_.erase(held);
}

void LeaseBook::Forget(Incarnation holder, uint64_t lease) {
  const auto of = of_.find(holder);
  of->second.erase(lease);
  if (of->second.empty()) of_.erase(of);
}

template <typename Use>
void LeaseBook::ForEachOf(Incarnation holder, const Use& use) {
  const auto of = of_.find(holder);
  if (of == of_.end()) return;
  for (const uint64_t lease : of->second) use(leases_.at(lease));
}

Lease LeaseBook::Open(Incarnation holder, uint32_t unit, std::vector<uint32_t> batches, bool copy,
                      int64_t now_ms) {
  changed_ = true;
  const uint64_t id = next_lease_++;
  for (const uint32_t index : batches) {
    Holders& holders = holders_[Number(unit, index)];
    DSLIDE_CHECK(holders[0] == 0 || holders[1] == 0);
    holders[holders[0] == 0 ? 0 : 1] = id;
    free_.Erase(Number(unit, index));
  }
  leases_[id] = {holder, unit,   static_cast<uint32_t>(batches.size()), now_ms, now_ms,
                 copy,   batches};
  of_[holder].insert(id);
  return {id, unit, std::move(batches)};
}

std::optional<Lease> LeaseBook::Grant(Incarnation holder, int64_t now_ms,
                                      const LeaseLimits& limits) {
  if (free_.empty()) return std::nullopt;
  uint64_t waiting = 0;  // the holder's batches that have to wait
  ForEachOf(holder, [&](const Held& held) {
    for (const uint32_t index : held.left) waiting += Number(held.unit, index) >= limits.open;
  });
  const uint32_t unit = PlaceInUnit(free_.first(), unit_batches_).unit;
  const uint64_t end = std::min(limits.end, Number(unit, 0) + UnitSize(unit));
  std::vector<uint32_t> batches;
  for (uint64_t n = free_.first(); n < end && batches.size() < limits.batches;
       n = free_.Next(n + 1, end)) {
    if (n >= limits.open && waiting++ >= limits.share) break;
    batches.push_back(PlaceInUnit(n, unit_batches_).index);
  }
  if (batches.empty()) return std::nullopt;
  return Open(holder, unit, std::move(batches), false, now_ms);
}

// The open leases, and when they are expected to end. With n leases that takes n log n, and there
// may be as many who ask: among many it is done again after n / 100 ms only.
void LeaseBook::LookForLate(const Speed& speeds, uint64_t end, int64_t now_ms) {
  const auto lasts_ms = static_cast<int64_t>(leases_.size() / 100);
  const bool recent = late_ms_ && now_ms - *late_ms_ < lasts_ms;
  if (late_end_ == end && (recent || (late_ms_ == now_ms && !changed_))) return;
  struct Expected {
    double speed = 0;
    double batches = 0;
    int64_t progress_ms = 0;
  };
  std::map<Incarnation, Expected> holders;
  for (const auto& [id, held] : leases_) {
    if (Number(held.unit, held.left.front()) >= end) continue;  // it waits
    Expected& holder = holders[held.holder];
    holder.progress_ms = std::max(holder.progress_ms, held.renewed_ms);
  }
  std::vector<double> known;
  for (auto& [incarnation, holder] : holders) {
    holder.speed = speeds(incarnation);
    if (holder.speed > 0) known.push_back(holder.speed);
  }
  middle_speed_ = known.empty() ? 1 : Median(std::move(known));
  late_.clear();
  for (const auto& [id, held] : leases_) {  // a holder works on its leases in the order of ids
    if (Number(held.unit, held.left.front()) >= end) continue;
    Expected& holder = holders[held.holder];
    for (const uint32_t index : held.left) {
      // A batch with a copy will be ready without this holder.
      holder.batches += held.copy || holders_.at(Number(held.unit, index))[1] == 0;
    }
    const double speed = holder.speed > 0 ? holder.speed : middle_speed_;
    const double silent_s = static_cast<double>(now_ms - holder.progress_ms) / 1000;
    late_.push_back({id, std::max(holder.batches / speed, silent_s), speed});
  }
  std::ranges::reverse(late_);  // of two that end together the older one is copied first
  std::ranges::stable_sort(late_, {}, &Late::end_s);
  late_end_ = end;
  late_ms_ = now_ms;
  changed_ = false;
}

// The last batches of a lease that have no copy, ascending.
std::vector<uint32_t> LeaseBook::ToCopy(const Held& held, size_t most, uint64_t end) const {
  std::vector<uint32_t> batches;
  for (auto index = held.left.rbegin(); index != held.left.rend(); ++index) {
    if (batches.size() == most) break;
    const uint64_t batch = Number(held.unit, *index);
    if (batch < end && holders_.at(batch)[1] == 0) batches.push_back(*index);
  }
  std::ranges::reverse(batches);
  return batches;
}

std::optional<Lease> LeaseBook::LeaseBackup(Incarnation holder, int64_t now_ms, const Speed& speeds,
                                            const LeaseLimits& limits) {
  LookForLate(speeds, limits.end, now_ms);
  double own = 0;
  ForEachOf(holder, [&](const Held& held) { own += static_cast<double>(held.left.size()); });
  const double known = speeds(holder);
  const double speed = known > 0 ? known : middle_speed_;
  for (size_t i = late_.size(); i-- > 0;) {
    const Late late = late_[i];
    const double ahead_s = late.end_s - own / speed;
    if (ahead_s * speed <= 1) break;  // not even one batch would be ready earlier
    const auto found = leases_.find(late.lease);
    if (found != leases_.end() && found->second.holder == holder) continue;
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
    if (found == leases_.end()) continue;
    // k batches take k / speed here, and save the other holder k / late.speed.
    const double both = std::floor(ahead_s * speed * late.speed / (speed + late.speed));
    const auto wanted = static_cast<size_t>(std::clamp<double>(both, 1, limits.batches));
    std::vector<uint32_t> batches = ToCopy(found->second, wanted, limits.end);
    if (!batches.empty()) return Open(holder, found->second.unit, std::move(batches), true, now_ms);
  }
  return std::nullopt;
}

bool LeaseBook::Done(uint64_t lease, uint32_t unit, uint32_t index, int64_t now_ms) {
  if (IsDone(unit, index)) return false;
  const auto reported = leases_.find(lease);
  if (reported != leases_.end() && reported->second.unit == unit) {
    reported->second.renewed_ms = now_ms;
    ForEachOf(reported->second.holder, [&](Held& held) {
      if (Number(held.unit, held.left.front()) > Number(unit, index)) held.renewed_ms = now_ms;
    });
  }
  return Mark(unit, index);
}

bool LeaseBook::GiveBack(Incarnation holder, uint32_t unit, uint32_t index) {
  if (index >= UnitSize(unit)) return false;
  const uint64_t batch = Number(unit, index);
  const auto held = holders_.find(batch);
  if (held == holders_.end()) return false;
  Holders& leases = held->second;
  for (const size_t i : {0, 1}) {
    if (leases[i] == 0 || leases_.at(leases[i]).holder != holder) continue;
    Drop(leases[i], batch);
    leases = {leases[1 - i], 0};
    if (leases[0] == 0) {
      holders_.erase(held);
      Free(batch);
    }
    return true;
  }
  return false;
}

void LeaseBook::Reopen(uint64_t begin) {
  for (uint64_t batch = begin; batch < batches_; ++batch) {
    if (done_[batch] == 0) continue;
    done_[batch] = 0;
    done_count_--;
    Free(batch);
  }
}

template <typename Predicate>
size_t LeaseBook::EndWhere(Predicate predicate) {
  return std::erase_if(leases_, [&](const auto& entry) {
    const auto& [id, held] = entry;
    if (!predicate(held)) return false;
    changed_ = true;
    for (const uint32_t index : held.left) {
      const uint64_t batch = Number(held.unit, index);
      Holders& holders = holders_.at(batch);
      // The remaining lease, if any, comes first.
      holders = {holders[0] == id ? holders[1] : holders[0], 0};
      if (holders[0] != 0) continue;
      holders_.erase(batch);
      Free(batch);
    }
    Forget(held.holder, id);
    return true;
  });
}

size_t LeaseBook::Return(Incarnation holder) {
  return EndWhere([&](const Held& held) { return held.holder == holder; });
}

void LeaseBook::RenewFrom(uint64_t begin, int64_t now_ms) {
  changed_ = true;
  for (auto& [id, held] : leases_) {
    if (Number(held.unit, held.left.front()) < begin) continue;
    held.renewed_ms = held.granted_ms = now_ms;
  }
}

size_t LeaseBook::Expire(int64_t now_ms, int64_t timeout_ms) {
  return EndWhere([&](const Held& held) { return now_ms - held.renewed_ms > timeout_ms; });
}

}  // namespace dslide
