// The jobs on their way to a server's executors: their order, and how many may be before them.
//
// Every job goes to all executors, in the order of Add(). A job goes when every executor has less
// than `most` jobs whose outcomes were not collected; otherwise it waits here, and all later jobs
// behind it. So queues of `most` jobs before each executor and of `most` outcomes of each executor
// never overflow.
//
// Invariant: no executor has more than `most` jobs.
// Owned by one thread: that of the pool's owner, or the simulation's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace dslide {

template <typename Job>
class JobBacklog {
 public:
  // REQUIRES most > 0.
  JobBacklog(size_t executors, size_t most) : given_(executors), most_(most) {
    DSLIDE_CHECK(most > 0);
  }

  void Add(Job job) { waiting_.push_back(std::move(job)); }

  // The next job, if all executors have room for it; the caller gives it to all of them.
  std::optional<Job> Next() {
    const auto full = [this](size_t given) { return given >= most_; };
    if (waiting_.empty() || std::ranges::any_of(given_, full)) return std::nullopt;
    for (size_t& given : given_) ++given;
    std::optional<Job> job(std::move(waiting_.front()));
    waiting_.pop_front();
    return job;
  }

  // An executor's outcome of a job was collected.
  void Collected(size_t executor) {
    DSLIDE_CHECK(given_.at(executor) > 0);
    --given_[executor];
  }

  size_t waiting() const { return waiting_.size(); }
  // No job waits, and the outcomes of all were collected.
  bool idle() const {
    return waiting_.empty() && std::ranges::all_of(given_, [](size_t given) { return given == 0; });
  }

 private:
  std::deque<Job> waiting_;
  std::vector<size_t> given_;  // [executors]: jobs without a collected outcome
  size_t most_;
};

}  // namespace dslide
