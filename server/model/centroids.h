// Neurons that are the centroids of their samples (model.neurons = centroids).
//
// For labels with few samples a mean is a better neuron than gradients make (Mensink, Verbeek,
// Perronnin, Csurka, "Distance-based image classification", IEEE TPAMI 35(11), 2013). Epochs that
// form the centroids alternate with epochs in which the input rows learn, by the gradient of the
// softmax, to bring samples near the centroids of their labels (LearnsIn()).
//
// A centroid knows its own samples. A sample is therefore scored against the centroid of the other
// samples of its label; otherwise there would be nothing to learn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dslide {

// The length of a centroid: a logit is the cosine times this times |h|.
inline constexpr float kCentroidLength = 1.0f;

// A sample's logit of its label, and dlogit/dh = neuron w + sample h with the label's neuron w.
struct LabelLogit {
  float logit;
  float neuron = 1.0f;
  float sample = 0.0f;
};

// The logit of a sample of a label as if the centroid were that of the other samples. `logit` is
// that of the centroid w = c u of all n, s u the sum of their n unit vectors, `norm` is |h|,
// d = h / |h|:
//   u' = (s u - d) / r,   r = |s u - d| = sqrt(s^2 - 2 s u.d + 1)
//   logit' = c |h| u'.d,   dlogit'/dh = c u' = (s / r) w - c / (r |h|) h
// Unit vectors without negative parts have sums of at least length 1, so r < 1 is an error of
// rounding, or says that h has moved. The only sample of a label keeps its logit, so that it has
// next to no gradient.
// The sum of samples with weights is s u = sum of weight times unit vector. Divided by `weight`,
// the sample's own, it is as above, but the others are at least 1 / weight long where no weight is
// below 1.
inline LabelLogit WithoutSample(float logit, float norm, uint32_t n, float s, float weight = 1) {
  if (n < 2 || norm == 0 || weight <= 0) return {logit};
  s /= weight;
  const float shortest = weight > 1 ? 1 / weight : 1.0f;
  const float scale = kCentroidLength * norm;
  const float cosine = logit / scale;
  const float r = std::max(shortest, std::sqrt(std::max(0.0f, s * s - 2 * s * cosine + 1)));
  const float without = scale * (s * cosine - 1) / r;
  if (without >= logit) return {logit};
  return {without, s / r, -kCentroidLength / (r * norm)};
}

}  // namespace dslide
