// Virtual time, and the queue of coming events.
//
// Events run one after another, by time, and at equal times in the order in which they were
// scheduled. Nothing else advances the time. So a simulation is a function of its seed alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace dslide::sim {

constexpr int64_t kMs = 1000;  // in microseconds, the unit of all simulated times
constexpr int64_t kSecond = 1000 * kMs;

class SimClock {
 public:
  using Event = std::function<void()>;

  int64_t now_us() const { return now_us_; }
  uint64_t events() const { return next_; }  // scheduled so far

  void After(int64_t delay_us, Event event) { At(now_us_ + delay_us, std::move(event)); }
  void At(int64_t time_us, Event event) {
    DSLIDE_CHECK(time_us >= now_us_);
    queue_.push_back({time_us, next_++, std::move(event)});
    std::push_heap(queue_.begin(), queue_.end(), Later());
  }

  // Runs the next event. False: there is no event before `end_us`.
  bool Step(int64_t end_us) {
    if (queue_.empty() || queue_.front().time_us >= end_us) return false;
    std::pop_heap(queue_.begin(), queue_.end(), Later());
    const Entry entry = std::move(queue_.back());
    queue_.pop_back();
    now_us_ = entry.time_us;
    entry.event();
    return true;
  }

 private:
  struct Entry {
    int64_t time_us;
    uint64_t number;
    Event event;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.time_us != b.time_us ? a.time_us > b.time_us : a.number > b.number;
    }
  };

  int64_t now_us_ = 0;
  uint64_t next_ = 0;
  std::vector<Entry> queue_;  // a heap, the earliest first
};

}  // namespace dslide::sim
