#include "common/config/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/config/limits.h"

namespace dslide {
namespace {

// A place in a schedule, in batches.
struct Place {
  double done = 0;
  uint64_t all = 0;
};

// How many of the first `batches` of a run learn.
uint64_t LearningBatches(const Config& config, uint64_t batches, uint64_t per_epoch) {
  if (LearnsNeurons(config.model)) return batches;
  uint64_t learning = 0;
  for (uint64_t epoch = 0; epoch * per_epoch < batches; ++epoch) {
    if (!LearnsIn(config, epoch)) continue;
    learning += std::min(per_epoch, batches - epoch * per_epoch);
  }
  return learning;
}

// `learns`: only the batches count that learn.
Place PlaceOf(const Config& config, uint64_t batch, uint64_t samples, bool learns) {
  const TrainConfig& train = config.train;
  const uint64_t per_epoch = BatchesPerEpoch(train, samples);
  const uint64_t end = train.epochs * per_epoch;
  const uint64_t all = std::max(train.schedule_epochs * per_epoch, end);
  const uint64_t cooldown = std::min(train.epochs, train.cooldown_epochs.value_or(0)) * per_epoch;
  const uint64_t begin = end - cooldown;
  if (batch > begin && cooldown > 0) {
    const double share =
        static_cast<double>(std::min(batch, end) - begin) / static_cast<double>(cooldown);
    const auto at = static_cast<double>(begin);
    return {at + share * (static_cast<double>(all) - at), all};
  }
  if (!learns) return {static_cast<double>(batch), all};
  return {static_cast<double>(LearningBatches(config, batch, per_epoch)),
          LearningBatches(config, all, per_epoch)};
}

uint64_t EpochOf(const TrainConfig& train, uint64_t batch, uint64_t samples) {
  return batch / std::max<uint64_t>(1, BatchesPerEpoch(train, samples));
}

// Whether the learning rate of the epoch is above 0.
bool HasRate(const Config& config, uint64_t epoch) {
  if (epoch >= config.train.epochs) return config.train.decay == Decay::kNone;
  return LearnsIn(config, epoch);
}

uint64_t WarmupOf(const TrainConfig& train, uint64_t all) {
  const uint64_t warmup = WarmupBatches(train);
  return train.open_vocabulary ? warmup : std::min(warmup, all / 3);
}

}  // namespace

bool LearnsIn(const Config& config, uint64_t epoch) {
  if (LearnsNeurons(config.model)) return true;
  const uint64_t after = config.train.epochs - 1 - epoch;
  return epoch > 0 && after > 0 && (epoch == 1 || after % 2 == 1);
}

float LearningRateAt(const Config& config, uint64_t batch, uint64_t samples) {
  const TrainConfig& train = config.train;
  if (!HasRate(config, EpochOf(train, batch, samples))) return 0.0f;
  const auto [done, all] = PlaceOf(config, batch, samples, true);
  const double peak = train.learning_rate;
  const uint64_t warmup = WarmupOf(train, all);
  if (done < static_cast<double>(warmup)) {
    return static_cast<float>(peak * (done + 1) / static_cast<double>(warmup));
  }
  if (train.decay == Decay::kNone) return train.learning_rate;
  // `left` falls from 1 at the end of the warm-up to 0 at the end of the schedule.
  const double left = (static_cast<double>(all) - done) / static_cast<double>(all - warmup);
  if (train.decay == Decay::kLinear) return static_cast<float>(peak * left);
  return static_cast<float>(peak * 0.5 * (1.0 - std::cos(std::numbers::pi * left)));
}

bool WarmsUp(const Config& config, uint64_t batch, uint64_t samples) {
  if (!HasRate(config, EpochOf(config.train, batch, samples))) return false;
  const auto [done, all] = PlaceOf(config, batch, samples, true);
  return done < static_cast<double>(WarmupOf(config.train, all));
}

float DropoutIn(const TrainConfig& train, uint64_t epoch) {
  const uint32_t late = train.late_dropout.value_or(0);
  return late > 0 && epoch >= late ? kHighDropout : DropoutHidden(train);
}

double LateNegatives(const ModelConfig& model) {
  const double most = std::max<double>(model.negatives, 0.25 * model.labels);
  return std::min(3.0 * model.negatives, most);
}

uint32_t DrawsAt(const Config& config, uint64_t batch, uint64_t samples) {
  const auto [done, all] = PlaceOf(config, batch, samples, false);
  const double share = all == 0 ? 0 : std::min(1.0, done / static_cast<double>(all));
  const uint64_t epoch = EpochOf(config.train, batch, samples);
  const uint32_t late = config.train.late_negatives.value_or(0);
  const double mean =
      late > 0 && epoch >= late ? LateNegatives(config.model) : config.model.negatives;
  return std::max(1u, static_cast<uint32_t>(std::lround(mean * (1.5 - share))));
}

}  // namespace dslide
