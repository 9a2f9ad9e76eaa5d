// The schedule of a run: the learning rate and the number of drawn neurons at each batch, dropout
// in each epoch, and, with model.neurons = centroids, the epochs that learn.
//
// The schedule has train.schedule_epochs. The last train.cooldown_epochs of the run pass through
// the rest of the schedule at a higher speed, so the learning rate reaches 0 at the end of the run
// even if the number of epochs was decided late (a cooldown: Hägele et al., "Scaling Laws and
// Compute-Optimal Training Beyond Fixed Training Durations", NeurIPS 2024).
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace dslide {

// Total batches of one epoch over `samples` samples.
inline uint64_t BatchesPerEpoch(const TrainConfig& train, uint64_t samples) {
  return (samples + train.batch - 1) / train.batch;
}

// Whether rows learn by gradients in an epoch. With model.neurons = centroids the first, the last,
// and every other epoch before the last only forms the centroids anew; in the other epochs the
// input rows learn. REQUIRES epoch < train.epochs.
bool LearnsIn(const Config& config, uint64_t epoch);

// Learning rate of a batch of a run over `samples` samples, by its number in the run: up from
// learning_rate / WarmupBatches() to learning_rate, then as train.decay says. The warm-up takes at
// most a third of the schedule, except in a stream, and epochs that form centroids take no part in
// it: they have the rate 0. Defined for every batch: behind the last one it is 0, or learning_rate
// without decay.
float LearningRateAt(const Config& config, uint64_t batch, uint64_t samples);

// Whether the learning rate of a batch still rises to learning_rate.
bool WarmsUp(const Config& config, uint64_t batch, uint64_t samples);

// Share of hidden units that the batches of an epoch leave out: train.dropout_hidden, after
// train.late_dropout epochs kHighDropout.
float DropoutIn(const TrainConfig& train, uint64_t epoch);

// Neurons that a batch draws by their mass: 1.5 times model.negatives at the start of the schedule,
// half of them at its end. While the model knows nothing, every neuron has to be told often that it
// is wrong; later few are, and the masses tell which. After train.late_negatives epochs
// LateNegatives() takes the place of model.negatives.
uint32_t DrawsAt(const Config& config, uint64_t batch, uint64_t samples);

// Three times model.negatives, at most a quarter of the labels, but never fewer than
// model.negatives.
double LateNegatives(const ModelConfig& model);

}  // namespace dslide
