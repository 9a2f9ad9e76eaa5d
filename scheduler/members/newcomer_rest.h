// How long the plan takes no newcomers after one has failed.
//
// A server that joins, gets slots and does not do its part stops training until it is left out and
// all are back at the last checkpoint. One process can be a new server again and again, under other
// names, addresses and incarnations. So the first failure keeps all newcomers waiting for kFirstMs,
// several times what it has cost, and each further one for twice as long, up to kMostMs. When no
// newcomer has failed for four times as long, the next failure is a first one again. A seat whose
// server is lost is filled all the same.
//
// Pure: time is passed in.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dslide {

class NewcomerRest {
 public:
  static constexpr int64_t kFirstMs = 120'000;
  static constexpr int64_t kMostMs = 960'000;

  // A server with slots is gone soon after it had joined, or before it had proved itself.
  void OnFailure(int64_t now_ms) {
    const bool is_first = rest_ms_ == 0 || now_ms - until_ms_ > 3 * rest_ms_;
    rest_ms_ = is_first ? kFirstMs : std::min(kMostMs, 2 * rest_ms_);
    until_ms_ = now_ms + rest_ms_;
  }
  // For how long newcomers still have to wait; 0: not at all.
  int64_t LeftMs(int64_t now_ms) const {
    return rest_ms_ == 0 ? 0 : std::max<int64_t>(0, until_ms_ - now_ms);
  }

 private:
  int64_t rest_ms_ = 0;  // the last rest; 0 before the first failure
  int64_t until_ms_ = 0;
};

}  // namespace dslide
