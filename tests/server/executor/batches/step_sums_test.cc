#include "server/executor/batches/step_sums.h"

#include <doctest/doctest.h>

#include "common/math/kernels.h"
#include "server/model/input_layer.h"
#include "server/model/output_layer.h"
#include "tests/server/support/test_batches.h"

namespace dslide::step_sums_test {
namespace {

constexpr uint64_t kSamples = 76;  // 10 batches of 8, the last of 4; steps of 4, 4 and 2 batches

Config StepConfig(int32_t staleness) {
  Config config = SmallConfig(20, 10, 4);
  config.train.batch = 8;
  config.train.target_batch = 32;
  config.train.staleness = staleness;
  config.train.epochs = 2;
  ResolveConfig(20, 10, &config);
  return config;
}

struct Fixture {
  explicit Fixture(int32_t staleness = 0) : config(StepConfig(staleness)) {}

  BatchId Batch(uint64_t number) const {
    return {0, static_cast<uint32_t>(number / config.train.unit_batches),
            static_cast<uint32_t>(number % config.train.unit_batches)};
  }
  // What a batch contributes to both layers: a gradient of its share in row 0.
  void Hold(uint64_t number, uint32_t samples = 8) {
    const std::vector<float> ones(4, 1.0f);
    StepSums::Step& step = sums.StepOf(Batch(number));
    StepSums::Batch& batch = step.batches[Batch(number)];
    if (!batch.output) {
      step.output.Add(0, sums.ShareOfStep(Batch(number), samples), ones.data(), 0);
    }
    batch.output = batch.input = true;
  }

  Config config;
  InputLayer input{config, AllSlots(config), Purpose::kTraining, BestKernels()};
  OutputLayer output{config, AllSlots(config), Purpose::kTraining, BestKernels()};
  StepSums sums{config.train, kSamples, output.layer(), input.layer()};
};

TEST_CASE("a step is complete when all its batches are wholly there") {
  Fixture fixture;
  StepSums& sums = fixture.sums;
  CHECK_FALSE(sums.committed());
  CHECK(sums.WhyNotOpen(fixture.Batch(0)) == "step 0 is not open; committed steps: 0");
  sums.SetCommitted(0);
  CHECK(sums.Next().error().message == "step 0 cannot be committed: all batches missing");
  for (const uint64_t number : {2, 0, 3}) fixture.Hold(number);
  CHECK(sums.Next().error().message == "step 0 cannot be committed: 1 of 4 batches missing");
  sums.StepOf(fixture.Batch(1)).batches[fixture.Batch(1)].output = true;
  CHECK_FALSE(sums.Next().ok());  // the input layer lacks it
  fixture.Hold(1);
  CHECK(sums.Next().ok());
  sums.CheckInvariants();
}

TEST_CASE("the batches of a step weigh by their samples, and a committed step is forgotten") {
  Fixture fixture;
  StepSums& sums = fixture.sums;
  sums.SetCommitted(0);
  for (uint64_t number = 0; number < 4; ++number) fixture.Hold(number);
  const auto step = sums.Next();
  REQUIRE(step.ok());
  float sum = 0;
  (*step)->output.ForEach([&](uint32_t row, const float* g, float) {
    CHECK(row == 0);
    sum += g[0];
  });
  CHECK(sum == doctest::Approx(1));
  sums.Commit();
  CHECK(sums.committed() == 1);
  CHECK_FALSE(sums.holds());
  StepSums::Step& next = sums.StepOf(fixture.Batch(4));  // in the memory of the first
  CHECK(next.batches.empty());
  next.output.ForEach([](uint32_t, const float*, float) { FAIL("something is left"); });
  // The last step has two batches, the last of them with half the samples.
  CHECK(sums.ShareOfStep(fixture.Batch(8), 8) == doctest::Approx(8.0 / 12));
  CHECK(sums.ShareOfStep(fixture.Batch(9), 4) == doctest::Approx(4.0 / 12));
}

TEST_CASE("as many later steps are open as train.staleness says") {
  Fixture fixture(1);
  StepSums& sums = fixture.sums;
  sums.SetCommitted(1);
  CHECK(sums.WhyNotOpen(fixture.Batch(0)) == "step 0 is not open; committed steps: 1");
  CHECK(sums.WhyNotOpen(fixture.Batch(4)).empty());
  CHECK(sums.WhyNotOpen(fixture.Batch(9)).empty());
  CHECK_FALSE(sums.WhyNotOpen({1, 0, 0}).empty());
  fixture.Hold(4);
  CHECK(sums.holds());
  sums.Clear();
  CHECK_FALSE(sums.holds());
  CHECK(sums.committed() == 1);
}

}  // namespace
}  // namespace dslide::step_sums_test
