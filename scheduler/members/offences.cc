#include "scheduler/members/offences.h"

#include <iterator>
#include <utility>

#include "common/security/keys.h"

namespace dslide {
namespace {

constexpr size_t kMostKeys = 4096;  // whose offences count

}  // namespace

bool Offences::Note(Incarnation member, std::string reason, bool counts, int64_t now_ms) {
  total_++;
  last_.push_back({member, std::move(reason), now_ms});
  if (last_.size() > kKept) last_.pop_front();
  if (!counts) return false;
  const auto forget = [&](std::vector<int64_t>* times) {
    std::erase_if(*times, [&](int64_t at_ms) { return now_ms - at_ms > kWithinMs; });
    return times->empty();
  };
  if (times_.size() >= kMostKeys) {
    for (auto entry = times_.begin(); entry != times_.end();) {
      entry = forget(&entry->second) ? times_.erase(entry) : std::next(entry);
    }
    if (times_.size() >= kMostKeys) times_.erase(times_.begin());
  }
  std::vector<int64_t>& times = times_[FingerprintOf(member)];
  (void)forget(&times);
  times.push_back(now_ms);
  if (times.size() < kMost) return false;
  times_.erase(FingerprintOf(member));
  return true;
}

}  // namespace dslide
