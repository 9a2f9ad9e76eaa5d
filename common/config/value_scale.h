// train.normalize: the number that all feature values are divided by.
//
// The settings are made for text, whose samples have length (L2 norm) 1. Much
// larger values give gradients that overshoot, and much smaller ones hardly train the model. Data
// files and requests keep their values: a worker divides them when it sends a batch to servers, and
// a trained model divides those of each sample that it gets.
#pragma once

#include "common/config/config.h"

namespace dslide {

// The least and the greatest value of the key.
inline constexpr float kLeastDivisor = 1e-30f;
inline constexpr float kMostDivisor = 1e30f;

inline float ValueDivisor(const TrainConfig& train) { return train.normalize.value_or(1.0f); }

// Whether the settings suit samples with this median length.
bool IsUsualLength(float median_length);

// Sets train.normalize, if it is not set, for training data with this median length: to 1 if the
// length is usual, else to the length.
void ResolveNormalize(float median_length, TrainConfig* train);

}  // namespace dslide
