// A set of batch numbers, stored as runs: small and fast where neighbours are mostly in the set or
// out of it together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace dslide {

class BatchRuns {
 public:
  explicit BatchRuns(uint64_t end) {
    if (end > 0) runs_[0] = end;
  }

  bool empty() const { return runs_.empty(); }
  uint64_t first() const { return runs_.begin()->first; }  // REQUIRES not empty
  // The smallest member >= `batch`; `none` if there is none.
  uint64_t Next(uint64_t batch, uint64_t none) const {
    const auto behind = runs_.upper_bound(batch);
    if (behind != runs_.begin() && std::prev(behind)->second > batch) return batch;
    return behind == runs_.end() ? none : behind->first;
  }

  void Insert(uint64_t batch) {
    const auto behind = runs_.upper_bound(batch);
    uint64_t end = batch + 1;
    if (behind != runs_.begin()) {
      const auto before = std::prev(behind);
      if (before->second > batch) return;
      if (before->second == batch) batch = before->first;
    }
    if (behind != runs_.end() && behind->first == end) {
      end = behind->second;
      runs_.erase(behind);
    }
    runs_[batch] = end;
  }
  void Erase(uint64_t batch) {
    const auto behind = runs_.upper_bound(batch);
    if (behind == runs_.begin()) return;
    const auto run = std::prev(behind);
    const auto [begin, end] = *run;
    if (end <= batch) return;
    if (begin == batch) {
      runs_.erase(run);
    } else {
      run->second = batch;
    }
    if (batch + 1 < end) runs_[batch + 1] = end;
  }

 private:
  std::map<uint64_t, uint64_t> runs_;  // begin to end, not adjacent
};

}  // namespace dslide
