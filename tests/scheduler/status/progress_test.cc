#include "scheduler/status/progress.h"

#include <doctest/doctest.h>

#include "tests/support/numbered_samples.h"

namespace dslide::progress_test {
namespace {

TEST_CASE("progress: a stretch in which no batch counted slows the next one down") {
  const Dataset train = NumberedSamples(50, 10);
  RunContext run;
  run.train = &train;
  RunStatus status;
  status.run = &run;
  ProgressMeter meter;
  const auto speed_after = [&](int64_t ms, uint64_t samples) {
    status.training_ms += ms;
    status.work.samples += samples;
    return meter.Sample(status).samples_per_second;
  };
  CHECK(speed_after(1000, 100) == 100);
  CHECK(speed_after(1000, 0) == 100);
  CHECK(speed_after(1000, 200) == 100);
}

}  // namespace
}  // namespace dslide::progress_test
