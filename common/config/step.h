// The number of a batch in the run's data order, on which servers and workers must agree: it is the
// argument of the learning-rate schedule and the seed of negatives and dropout.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/config/config.h"

namespace dslide {

inline uint64_t StepOf(const BatchId& batch, const TrainConfig& train, uint64_t train_samples) {
  return batch.epoch * BatchesPerEpoch(train, train_samples) +
         uint64_t{batch.unit} * train.unit_batches + batch.index;
}

}  // namespace dslide
