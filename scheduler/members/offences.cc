#include "scheduler/members/offences.h"

#include <utility>

#include "common/security/keys.h"

namespace dslide {

bool Offences::Note(Incarnation member, std::string reason, bool counts, int64_t now_ms) {
  total_++;
  last_.push_back({member, std::move(reason), now_ms});
  if (last_.size() > kKept) last_.pop_front();
  if (!counts) return false;
  for (auto& [fingerprint, times] : times_) {
    std::erase_if(times, [&](int64_t at_ms) { return now_ms - at_ms > kWithinMs; });
  }
  std::erase_if(times_, [](const auto& entry) { return entry.second.empty(); });
  std::vector<int64_t>& times = times_[FingerprintOf(member)];
  times.push_back(now_ms);
  if (times.size() < kMost) return false;
  times_.erase(FingerprintOf(member));
  return true;
}

}  // namespace dslide
