#include "tools/bench/swarm/weather.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dslide {

double Weather::Share(uint32_t site, int64_t now_ms) const {
  constexpr double kMean = 0.7, kSwing = 0.2, kFullest = 3;
  if (!settings_.day_and_night) return kMean;
  const double hour = static_cast<double>(now_ms) / kHourMs + 24.0 * site / settings_.sites;
  return kMean + kSwing * std::cos(2 * std::numbers::pi * (hour - kFullest) / 24);
}

int64_t Weather::AbsenceMs(uint32_t site, int64_t now_ms) {
  const double share = Share(site, now_ms);
  return Exponential(settings_.session_h * kHourMs * (1 - share) / share);
}

int64_t Weather::Exponential(double mean_ms) {
  return std::max<int64_t>(1, static_cast<int64_t>(-mean_ms * std::log(1 - random_.Uniform())));
}

}  // namespace dslide
