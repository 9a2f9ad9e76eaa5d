#include "worker/link_meter.h"

#include <algorithm>

#include "common/base/check.h"

namespace dslide {

void LinkMeter::Note(int64_t now_us, size_t kind, int64_t elapsed_us, int64_t service_us,
                     size_t bytes) {
  DSLIDE_CHECK(kind < kKinds);
  if (window_began_us_ == 0) window_began_us_ = now_us;
  if (now_us - window_began_us_ > kWindowUs) {
    EndWindow(static_cast<double>(now_us - window_began_us_) * 1e-6);
    window_began_us_ = now_us;
    window_bytes_ = 0;
    quickest_ = {};
  }
  window_bytes_ += static_cast<double>(bytes);
  const auto us = static_cast<double>(std::max<int64_t>(1, elapsed_us - service_us));
  Quickest& best = quickest_[kind];
  if (best.us == 0 || us < best.us) best = {us, static_cast<double>(bytes)};
}

void LinkMeter::EndWindow(double seconds) {
  const Quickest* few = nullptr;
  const Quickest* many = nullptr;
  for (const Quickest& kind : quickest_) {
    if (kind.us == 0) continue;
    if (few == nullptr || kind.bytes < few->bytes) few = &kind;
    if (many == nullptr || kind.bytes > many->bytes) many = &kind;
  }
  if (few == nullptr || many->bytes - few->bytes < kLeastBytes) return;
  const double bits = 8 * (many->bytes - few->bytes);
  const double us_per_bit = std::max((many->us - few->us) / bits, 1e6 / kMostBitsPerSecond);
  bits_per_second_ = 1e6 / us_per_bit;
  round_trip_us_ = std::max(1.0, few->us - 8 * few->bytes * us_per_bit);
  busy_ = 8 * window_bytes_ / seconds / bits_per_second_;
  ++windows_;
}

}  // namespace dslide
