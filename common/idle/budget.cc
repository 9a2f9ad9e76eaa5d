#include "common/idle/budget.h"

#include <algorithm>

namespace dslide {

bool Budget::MayBegin(int64_t now_us) {
  if (per_second_ == 0) {
    tokens_ = 0;
    filled_us_ = now_us;
    return true;
  }
  if (filled_us_ != 0) {
    tokens_ += per_second_ * 1e-6 * static_cast<double>(std::max<int64_t>(0, now_us - filled_us_));
  }
  filled_us_ = now_us;
  tokens_ = std::min(tokens_, per_second_ * kBurstS);
  return tokens_ >= 0;
}

}  // namespace dslide
