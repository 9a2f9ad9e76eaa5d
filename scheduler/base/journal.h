// The last decisions and departures of a run, for the status page.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "common/base/ids.h"
#include "common/log/event.h"
#include "scheduler/members/roster.h"

namespace dslide {

// A decision; its text gives the reason.
struct Decided {
  int64_t at_ms = 0;
  Event event;
  bool tuning = false;  // of leases and shares: there are many, and each is one of a kind
};

// A member that is gone.
struct Departure {
  Incarnation incarnation;
  Role role = Role::kWorker;
  std::string name;
  int64_t at_ms = 0;
  bool lost = false;  // it died, or left without handing over what it had
  std::string why;    // "left", "has been silent for 8.2 s, taken for dead"
};

class Journal {
 public:
  static constexpr size_t kKept = 50;  // of each kind; older ones are forgotten

  void AddDecision(Event event, int64_t now_ms, bool tuning = false);
  void AddDeparture(const Member& member, bool lost, std::string why, int64_t now_ms);

  // Both oldest first.
  const std::deque<Decided>& decisions() const { return decisions_; }
  const std::deque<Departure>& departures() const { return departures_; }

 private:
  std::deque<Decided> decisions_;
  std::deque<Departure> departures_;
};

}  // namespace dslide
