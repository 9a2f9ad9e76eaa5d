// The learning rate and the draws from batch to batch, with cooldowns and epochs that form
// centroids.
#include "common/config/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace dslide {
namespace {

Config RunOf(uint32_t epochs) {
  Config config;
  config.train.batch = 10;
  config.train.epochs = epochs;
  config.train.learning_rate = 0.4f;
  config.train.warmup_batches = 4;
  return config;
}

}  // namespace

TEST_CASE("schedule: fewer neurons are drawn from batch to batch") {
  Config config = RunOf(1);
  config.model.negatives = 1000;
  const auto draws = [&](uint64_t batch) { return DrawsAt(config, batch, 2000); };
  CHECK(draws(0) == 1500);
  CHECK(draws(50) == 1250);
  CHECK(draws(199) == 505);
  CHECK(draws(5000) == 500);  // a run that is over
  config.model.negatives = 1;
  CHECK(draws(200) == 1);
}

TEST_CASE("schedule: warm-up, then the decay") {
  Config config = RunOf(1);  // of 12 batches: the warm-up is a third
  TrainConfig& train = config.train;
  const auto rate = [&](uint64_t batch) { return LearningRateAt(config, batch, 120); };
  for (const Decay decay : {Decay::kLinear, Decay::kCosine, Decay::kNone}) {
    train.decay = decay;
    CHECK(rate(0) == doctest::Approx(0.1));
    CHECK(rate(1) == doctest::Approx(0.2));
    CHECK(rate(3) == doctest::Approx(0.4));
    CHECK(rate(4) == doctest::Approx(0.4));
  }
  train.decay = Decay::kLinear;
  CHECK(rate(6) == doctest::Approx(0.3));
  CHECK(rate(11) == doctest::Approx(0.05));
  CHECK(rate(12) == 0.0f);
  CHECK(rate(UINT64_MAX) == 0.0f);
  train.decay = Decay::kCosine;
  CHECK(rate(6) == doctest::Approx(0.2 * (1.0 + std::sqrt(0.5))));
  CHECK(rate(8) == doctest::Approx(0.2));
  CHECK(rate(11) == doctest::Approx(0.2 * (1.0 + std::cos(3.14159265358979 * 7.0 / 8.0))));
  CHECK(rate(12) == 0.0f);
  train.decay = Decay::kNone;
  CHECK(rate(11) == 0.4f);
  CHECK(rate(UINT64_MAX) == 0.4f);
}

TEST_CASE("schedule: which batches belong to the warm-up") {
  Config config = RunOf(3);  // of 18 batches
  const auto warm = [&](uint64_t batch) { return WarmsUp(config, batch, 60); };
  CHECK(warm(0));
  CHECK(warm(3));
  CHECK_FALSE(warm(4));
  CHECK_FALSE(warm(UINT64_MAX));
  config.train.warmup_batches = 200;  // a third
  CHECK(warm(5));
  CHECK_FALSE(warm(6));
  config.train.open_vocabulary = true;  // nobody knows a third of a stream
  config.train.epochs = 1000;
  CHECK(warm(199));
  CHECK_FALSE(warm(200));
  config.train.warmup_batches.reset();
  CHECK(warm(99));
  CHECK_FALSE(warm(100));
  config = RunOf(3);
  config.train.warmup_batches = 0;
  CHECK_FALSE(warm(0));
  // Only the second epoch learns; those before and after it form centroids.
  config.train.warmup_batches = 1;
  config.model.neurons = Neurons::kCentroids;
  CHECK_FALSE(warm(0));
  CHECK(warm(6));
  CHECK_FALSE(warm(7));
}

TEST_CASE("schedule: no warm-up, and a run shorter than it") {
  Config config = RunOf(1);
  config.train.learning_rate = 1.0f;
  config.train.warmup_batches = 0;
  CHECK(LearningRateAt(config, 0, 40) == 1.0f);
  CHECK(LearningRateAt(config, 3, 40) == doctest::Approx(0.25));
  config.train.warmup_batches = 10;
  CHECK(LearningRateAt(config, 0, 40) == 1.0f);  // a batch of warm-up, not ten
  CHECK(LearningRateAt(config, 0, 120) == 0.25f);
  CHECK(LearningRateAt(config, 3, 120) == 1.0f);
  CHECK(LearningRateAt(config, 4, 40) == 0.0f);
}

TEST_CASE("schedule: the beginning of a longer one, then a cooldown") {
  Config config = RunOf(8);
  config.train.warmup_batches = 0;
  config.model.negatives = 1000;
  const Config whole = config;
  config.train.schedule_epochs = 8;
  config.train.epochs = 5;
  constexpr uint64_t kSamples = 100;  // 10 batches an epoch
  const auto rate = [&](uint64_t batch) { return LearningRateAt(config, batch, kSamples); };
  for (uint64_t batch = 0; batch < 50; ++batch) {
    CHECK(rate(batch) == LearningRateAt(whole, batch, kSamples));
    CHECK(DrawsAt(config, batch, kSamples) == DrawsAt(whole, batch, kSamples));
  }
  config.train.cooldown_epochs = 2;
  for (uint64_t batch = 0; batch <= 30; ++batch) {
    CHECK(rate(batch) == LearningRateAt(whole, batch, kSamples));
  }
  CHECK(rate(30) == doctest::Approx(0.25));
  CHECK(rate(40) == doctest::Approx(0.125));  // half of the cooldown is over
  CHECK(rate(49) == doctest::Approx(0.0125));
  CHECK(rate(50) == 0.0f);
  CHECK(DrawsAt(config, 30, kSamples) == 1125);
  CHECK(DrawsAt(config, 40, kSamples) == 813);  // 1500 - 1000 (3/8 + 5/16)
  CHECK(DrawsAt(config, 50, kSamples) == 500);
  config.train.cooldown_epochs = 9;  // of the whole run
  CHECK(rate(25) == doctest::Approx(0.2));
}

TEST_CASE("schedule: late negatives") {
  Config config = RunOf(4);
  config.model.negatives = 1000;
  config.model.labels = 20'000;
  config.train.late_negatives = 2;
  constexpr uint64_t kSamples = 100;  // 10 batches an epoch
  const auto draws = [&](uint64_t batch) { return DrawsAt(config, batch, kSamples); };
  CHECK(draws(19) == 1025);  // 1500 - 1000 * 19 / 40
  CHECK(draws(20) == 3000);
  CHECK(draws(39) == 1575);
  config.model.labels = 8000;  // at most a quarter of them
  CHECK(draws(20) == 2000);
  config.model.labels = 3000;  // never fewer than without
  CHECK(draws(20) == 1000);
  config.train.late_negatives = 0;
  config.model.labels = 20'000;
  CHECK(draws(20) == 1000);
}

TEST_CASE("schedule: late dropout") {
  TrainConfig train;
  CHECK(DropoutIn(train, 5) == 0.1f);
  train.dropout_hidden = 0.2f;
  train.late_dropout = 3;
  CHECK(DropoutIn(train, 2) == 0.2f);
  CHECK(DropoutIn(train, 3) == 0.5f);
  CHECK(DropoutIn(train, 9) == 0.5f);
  train.late_dropout = 0;
  CHECK(DropoutIn(train, 9) == 0.2f);
}

TEST_CASE("schedule: which epochs form centroids, and what the others take") {
  Config config;
  const auto epochs = [&](uint32_t count) {
    config.train.epochs = count;
    std::string text;
    for (uint32_t epoch = 0; epoch < count; ++epoch) {
      text += LearnsIn(config, epoch) ? 'L' : 'C';
    }
    return text;
  };
  CHECK(epochs(3) == "LLL");
  config.model.neurons = Neurons::kCentroids;
  CHECK(epochs(1) == "C");
  CHECK(epochs(2) == "CC");
  CHECK(epochs(3) == "CLC");
  CHECK(epochs(4) == "CLLC");
  CHECK(epochs(5) == "CLCLC");
  CHECK(epochs(8) == "CLLCLCLC");

  config.train.batch = 10;
  config.train.warmup_batches = 0;
  config.train.learning_rate = 1.2f;
  const auto rate = [&](uint64_t batch) { return LearningRateAt(config, batch, 25); };
  CHECK(rate(2) == 0.0f);
  CHECK(rate(3) == doctest::Approx(1.2));  // the first of 12 that learn
  CHECK(rate(5) == doctest::Approx(1.0));
  CHECK(rate(9) == 0.0f);
  CHECK(rate(12) == doctest::Approx(0.6));
  CHECK(rate(20) == doctest::Approx(0.1));  // the last one
  CHECK(rate(21) == 0.0f);
}

}  // namespace dslide
