#include "common/http/held_bytes.h"

#include <limits>

namespace dslide {
namespace {

size_t LimitOf(size_t limit) { return limit == 0 ? std::numeric_limits<size_t>::max() : limit; }

}  // namespace

std::vector<HeldBytes::Id> HeldBytes::Set(Id id, const std::string& address, Kind kind,
                                          size_t bytes, int64_t now_ms) {
  int64_t since_ms = now_ms;
  if (const Entry found = held_.find(id); found != held_.end()) {
    if (found->second.kind == kind) since_ms = found->second.since_ms;
    Erase(found);
  }
  if (bytes <= limits_.own) return {};
  bytes -= limits_.own;
  held_.emplace(id, Held{address, kind, bytes, since_ms});
  of_address_[address] += bytes;
  all_ += bytes;
  std::vector<Id> given_up;
  while (all_ > LimitOf(limits_.all) || IsOver(address)) {
    const Entry largest = LargestFor(id, address, now_ms);
    if (largest == held_.end()) break;
    given_up.push_back(largest->first);
    Erase(largest);
  }
  return given_up;
}

void HeldBytes::Erase(Id id) {
  if (const Entry found = held_.find(id); found != held_.end()) Erase(found);
}

void HeldBytes::Erase(Entry entry) {
  const Held& held = entry->second;
  all_ -= held.bytes;
  const auto address = of_address_.find(held.address);
  address->second -= held.bytes;
  if (address->second == 0) of_address_.erase(address);
  held_.erase(entry);
}

bool HeldBytes::IsOver(const std::string& address) const {
  const auto found = of_address_.find(address);
  return found != of_address_.end() && found->second > LimitOf(limits_.of_address);
}

// The request to give up for `id`: of the same address where that has too much. A response is not
// given up for itself, since the others make room.
HeldBytes::Entry HeldBytes::LargestFor(Id id, const std::string& address, int64_t now_ms) {
  const bool same_address = IsOver(address);
  Entry largest = held_.end();
  double most = 0;
  for (Entry entry = held_.begin(); entry != held_.end(); ++entry) {
    const Held& held = entry->second;
    if (held.kind == Kind::kComplete || (same_address && held.address != address)) continue;
    if (entry->first == id && held.kind == Kind::kResponse) continue;
    const double weight =
        static_cast<double>(held.bytes) * static_cast<double>(now_ms - held.since_ms + 1);
    if (weight <= most) continue;
    most = weight;
    largest = entry;
  }
  return largest;
}

}  // namespace dslide
