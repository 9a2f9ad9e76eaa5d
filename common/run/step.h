// Batches and steps by their numbers in the run's data order, on which scheduler, servers and
// workers must agree.
//
// A batch's number is the argument of the learning-rate schedule and the seed of negatives and
// dropout. In synchronous training (train.staleness >= 0) the batches of a step are applied
// together; a step does not cross epochs, so an epoch's last step may have fewer batches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/config/schedule.h"
#include "common/run/batch_number.h"

namespace dslide {

inline uint64_t BatchNumber(const BatchId& batch, const TrainConfig& train,
                            uint64_t train_samples) {
  return batch.epoch * BatchesPerEpoch(train, train_samples) +
         NumberInPass(batch.unit, batch.index, train.unit_batches);
}

// Samples of the epoch in progress. Batches have numbers as if all epochs were full; without fixed
// sizes the one in progress may have fewer samples.
inline uint64_t SamplesNow(const TrainConfig& train, uint64_t train_samples) {
  return train.epoch_samples == 0 ? train_samples : train.epoch_samples;
}

// Samples of a batch; 0 if the run has no such batch. REQUIRES, without fixed sizes, a batch of the
// epoch in progress.
inline uint64_t SamplesOf(const BatchId& batch, const TrainConfig& train, uint64_t train_samples) {
  const uint64_t number = NumberInPass(batch.unit, batch.index, train.unit_batches);
  const uint64_t samples = SamplesNow(train, train_samples);
  if (batch.epoch >= train.epochs || batch.index >= train.unit_batches ||
      number >= BatchesPerEpoch(train, samples)) {
    return 0;
  }
  return std::min<uint64_t>(train.batch, samples - number * train.batch);
}

// Batches of a whole step; 1 in asynchronous training.
inline uint64_t BatchesPerStep(const TrainConfig& train) {
  return std::max(1u, train.target_batch / train.batch);
}

inline uint64_t StepsPerEpoch(const TrainConfig& train, uint64_t train_samples) {
  const uint64_t batches = BatchesPerEpoch(train, train_samples);
  return (batches + BatchesPerStep(train) - 1) / BatchesPerStep(train);
}

// The number within the run of the step that a batch belongs to.
inline uint64_t StepOf(const BatchId& batch, const TrainConfig& train, uint64_t train_samples) {
  const uint64_t in_epoch = NumberInPass(batch.unit, batch.index, train.unit_batches);
  return batch.epoch * StepsPerEpoch(train, train_samples) + in_epoch / BatchesPerStep(train);
}

// The batches and samples of a step.
struct StepExtent {
  uint64_t first_batch;  // number within the run
  uint64_t batches;
  uint64_t samples;
};
inline StepExtent ExtentOfStep(uint64_t step, const TrainConfig& train, uint64_t train_samples) {
  const uint64_t steps = StepsPerEpoch(train, train_samples);
  const uint64_t samples = SamplesNow(train, train_samples);
  const uint64_t begin = step % steps * BatchesPerStep(train);
  const uint64_t end =
      std::max(begin, std::min(BatchesPerEpoch(train, samples), begin + BatchesPerStep(train)));
  return {step / steps * BatchesPerEpoch(train, train_samples) + begin, end - begin,
          std::min(samples, end * train.batch) - std::min(samples, begin * train.batch)};
}

}  // namespace dslide
