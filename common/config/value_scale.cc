#include "common/config/value_scale.h"

#include <algorithm>

namespace dslide {
namespace {

constexpr float kLeastUsualLength = 0.1f;
constexpr float kMostUsualLength = 10;

}  // namespace

bool IsUsualLength(float median_length) {
  return median_length >= kLeastUsualLength && median_length <= kMostUsualLength;
}

void ResolveNormalize(float median_length, TrainConfig* train) {
  if (train->normalize) return;
  train->normalize =
      IsUsualLength(median_length) ? 1.0f : std::clamp(median_length, kLeastDivisor, kMostDivisor);
}

}  // namespace dslide
