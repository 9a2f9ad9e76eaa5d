// train.normalize: the number that all feature values are divided by.
//
// The settings are made for text, whose samples have length (L2 norm) 1. Values that are far
// greater make gradients that overshoot, far smaller ones teach little. Data files and requests
// keep their values: a worker divides them when it sends a batch to servers, and a model when it is
// given a sample.
#pragma once

#include "common/config/config.h"

namespace dslide {

// The least and the greatest value of the key.
inline constexpr float kLeastDivisor = 1e-30f;
inline constexpr float kMostDivisor = 1e30f;

inline float ValueDivisor(const TrainConfig& train) { return train.normalize.value_or(1.0f); }

// Whether the settings suit samples whose median length is this one.
bool IsUsualLength(float median_length);

// Sets train.normalize, if it is left open, for training data whose samples have this median
// length: 1 if that is usual, else the length.
void ResolveNormalize(float median_length, TrainConfig* train);

}  // namespace dslide
