// Neurons of labels that a stream has forgotten (train.open_vocabulary): no weights, and a bias
// with which they have no share of any softmax. They are no labels until their ids go to others.
#pragma once

namespace dslide {

constexpr float kSilentBias = -1e4f;

inline bool IsSilent(float bias) { return bias <= kSilentBias / 2; }

}  // namespace dslide
