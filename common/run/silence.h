// Neurons of removed labels (ModelShape), until their ids are recycled: no weights, and a bias that
// keeps them out of the softmax.
#pragma once

namespace dslide {

constexpr float kSilentBias = -1e4f;

inline bool IsSilent(float bias) { return bias <= kSilentBias / 2; }

}  // namespace dslide
