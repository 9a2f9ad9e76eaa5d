// A token bucket that may go into debt: something is begun while it is not empty, and what it then
// costs is taken. So on average no more than the rate is used, by work of any size.
//
// In any time t at most rate * (t + kBurstS) and the cost of what was begun last is used. Pure:
// times are passed in.
#pragma once

#include <cstdint>

namespace dslide {

class Budget {
 public:
  static constexpr double kBurstS = 1;  // what is saved up while nothing is used

  // `per_second`: of bytes, CPU seconds or whatever is counted; 0: unlimited.
  explicit Budget(double per_second = 0) : per_second_(per_second) {}

  void Take(double amount) { tokens_ -= amount; }
  bool MayBegin(int64_t now_us);
  // Another rate from now on; a debt stays.
  void SetRate(double per_second) { per_second_ = per_second; }

 private:
  double per_second_;
  double tokens_ = 0;
  int64_t filled_us_ = 0;  // 0: not yet
};

}  // namespace dslide
