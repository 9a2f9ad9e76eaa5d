// Neurons that are the centroids of their samples (model.neurons = centroids).
//
// For labels with few samples a mean is a better neuron than gradients make (Mensink, Verbeek,
// Perronnin, Csurka, "Distance-based image classification", IEEE TPAMI 35(11), 2013). The first
// epoch counts the samples of each label; in all others the input rows learn, by the gradient of
// the softmax, to bring samples near the centroids of their labels.
//
// A centroid knows its own samples. A sample is therefore scored against the centroid of the other
// samples of its label; otherwise there would be nothing to learn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dslide {

// The length of a centroid: a logit is the cosine times this times |h|.
inline constexpr float kCentroidLength = 3.0f;

// The logit of a sample of a label as if the centroid were that of the other samples. `logit` is
// that of the centroid u of all n, s u the sum of their n unit vectors, `norm` is |h|, d = h / |h|:
//   u' = (s u - d) / |s u - d|,   u'.d = (s u.d - 1) / sqrt(s^2 - 2 s u.d + 1)
// The only sample of a label keeps its logit, so that it has next to no gradient.
inline float LeaveOneOut(float logit, float norm, uint32_t n, float s) {
  if (n < 2 || norm == 0) return logit;
  const float scale = kCentroidLength * norm;
  const float cosine = logit / scale;
  const float others = s * s - 2 * s * cosine + 1;
  return others > 0 ? std::min(logit, scale * (s * cosine - 1) / std::sqrt(others)) : logit;
}

}  // namespace dslide
