// Batches, steps and epochs by their numbers, and what ResolveConfig derives for steps.
#include "common/run/step.h"

#include <doctest/doctest.h>

#include <map>

#include "common/base/random.h"

namespace dslide::step_test {
namespace {

TrainConfig Train(uint32_t batch, uint32_t target_batch, uint32_t unit_batches) {
  TrainConfig train;
  train.batch = batch;
  train.target_batch = target_batch;
  train.unit_batches = unit_batches;
  train.staleness = 0;
  return train;
}

TEST_CASE("steps: the last one of an epoch and its last batch may be short") {
  // 95 samples: batches of 10, the last of 5; steps of 4, 4 and 2 batches.
  const TrainConfig train = Train(10, 40, 2);
  CHECK(BatchesPerEpoch(train, 95) == 10);
  CHECK(BatchesPerStep(train) == 4);
  CHECK(StepsPerEpoch(train, 95) == 3);
  const auto check = [&](uint64_t step, uint64_t first, uint64_t batches, uint64_t samples) {
    CAPTURE(step);
    const StepExtent extent = ExtentOfStep(step, train, 95);
    CHECK(extent.first_batch == first);
    CHECK(extent.batches == batches);
    CHECK(extent.samples == samples);
  };
  check(0, 0, 4, 40);
  check(1, 4, 4, 40);
  check(2, 8, 2, 15);
  check(3, 10, 4, 40);  // the second epoch's first
  check(5, 18, 2, 15);
  CHECK(StepOf({0, 3, 1}, train, 95) == 1);
  CHECK(StepOf({0, 4, 0}, train, 95) == 2);
  CHECK(StepOf({1, 0, 0}, train, 95) == 3);
  CHECK(StepOf({2, 4, 1}, train, 95) == 8);
}

TEST_CASE("steps: a step of one batch, one that takes the whole epoch, and one beyond it") {
  const TrainConfig one = Train(10, 10, 1);
  CHECK(StepsPerEpoch(one, 95) == 10);
  CHECK(ExtentOfStep(9, one, 95).samples == 5);
  for (const uint32_t target : {100u, 1000u}) {
    const TrainConfig all = Train(10, target, 1);
    CHECK(StepsPerEpoch(all, 95) == 1);
    CHECK(ExtentOfStep(0, all, 95).batches == 10);
    CHECK(ExtentOfStep(2, all, 95).samples == 95);
    CHECK(ExtentOfStep(2, all, 95).first_batch == 20);
  }
  TrainConfig asynchronous;
  asynchronous.batch = 10;
  CHECK_FALSE(IsSynchronous(asynchronous));
  CHECK(BatchesPerStep(asynchronous) == 1);
  asynchronous.staleness = 0;
  CHECK(IsSynchronous(asynchronous));
}

// Counts batches and samples of each step one by one.
void CheckSteps(const TrainConfig& train, uint64_t samples) {
  const uint64_t batches = (samples + train.batch - 1) / train.batch;
  struct Count {
    uint64_t first = ~uint64_t{0};
    uint64_t batches = 0;
    uint64_t samples = 0;
  };
  std::map<uint64_t, Count> counts;
  uint64_t last_step = 0;
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (uint64_t n = 0; n < batches; ++n) {
      const BatchId id{epoch, static_cast<uint32_t>(n / train.unit_batches),
                       static_cast<uint32_t>(n % train.unit_batches)};
      REQUIRE(BatchNumber(id, train, samples) == epoch * batches + n);
      const uint64_t step = StepOf(id, train, samples);
      REQUIRE(step >= last_step);
      REQUIRE(step <= last_step + 1);
      last_step = step;
      Count& count = counts[step];
      count.first = std::min(count.first, epoch * batches + n);
      count.batches++;
      count.samples += std::min<uint64_t>(train.batch, samples - n * train.batch);
    }
  }
  REQUIRE(counts.size() == 3 * StepsPerEpoch(train, samples));
  uint64_t all = 0;
  for (const auto& [step, count] : counts) {
    const StepExtent extent = ExtentOfStep(step, train, samples);
    REQUIRE(extent.first_batch == count.first);
    REQUIRE(extent.batches == count.batches);
    REQUIRE(extent.samples == count.samples);
    all += extent.samples;
  }
  REQUIRE(all == 3 * samples);
}

TEST_CASE("steps: extents are what counting the batches gives, and add up to the epochs") {
  Random random(3);
  for (int trial = 0; trial < 500; ++trial) {
    Config config;
    config.train.batch = static_cast<uint32_t>(1 + random.Below(20));
    config.train.target_batch = config.train.batch * static_cast<uint32_t>(1 + random.Below(30));
    config.train.unit_batches = static_cast<uint32_t>(1 + random.Below(12));
    config.train.staleness = static_cast<int32_t>(random.Below(3));
    const uint64_t samples = 1 + random.Below(500);
    CAPTURE(config.train.batch);
    CAPTURE(config.train.target_batch);
    CAPTURE(samples);
    ResolveConfig(50, 40, &config);
    CheckSteps(config.train, samples);
  }
}

TEST_CASE("steps: derived units divide a step, leave work for several, and are not made larger") {
  for (uint32_t step = 1; step <= 300; ++step) {
    for (const uint32_t configured : {1u, 3u, 8u, 64u}) {
      CAPTURE(step);
      CAPTURE(configured);
      Config config;
      config.train.staleness = 0;
      config.train.batch = 32;
      config.train.target_batch = 32 * step;
      config.train.unit_batches = configured;
      ResolveConfig(50, 40, &config);
      const uint32_t unit = config.train.unit_batches;
      REQUIRE(unit >= 1);
      REQUIRE(unit <= configured);
      REQUIRE(step % unit == 0);
      REQUIRE(step / unit >= std::min(step, 8u));
      REQUIRE(config.train.target_batch == 32 * step);
      const Config once = config;
      ResolveConfig(50, 40, &config);
      REQUIRE(config == once);
    }
  }
}

TEST_CASE("steps: target_batch is a batch if it is left open, asynchronous units stay") {
  Config config;
  config.train.staleness = 1;
  ResolveConfig(50, 40, &config);
  CHECK(config.train.target_batch == config.train.batch);
  CHECK(config.train.unit_batches == 1);
  Config asynchronous;
  asynchronous.train.unit_batches = 7;
  ResolveConfig(50, 40, &asynchronous);
  CHECK(asynchronous.train.unit_batches == 7);
  CHECK(asynchronous.train.target_batch == 0);
}

}  // namespace
}  // namespace dslide::step_test
