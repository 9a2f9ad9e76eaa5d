#include "scheduler/base/journal.h"

#include <utility>

namespace dslide {

void Journal::AddDecision(Event event, int64_t now_ms, bool tuning) {
  decisions_.push_back({now_ms, std::move(event), tuning});
  if (decisions_.size() > kKept) decisions_.pop_front();
}

void Journal::AddDeparture(const Member& member, bool lost, std::string why, int64_t now_ms) {
  departures_.push_back(
      {member.incarnation, member.role, member.name, now_ms, lost, std::move(why)});
  if (departures_.size() > kKept) departures_.pop_front();
}

}  // namespace dslide
