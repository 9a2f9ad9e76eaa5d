// SlotMemoryBytes against the memory of an executor.
#include <doctest/doctest.h>

#include "scheduler/balance/model_size.h"
#include "server/executor/executor.h"
#include "tests/server/support/test_batches.h"

namespace dslide::slot_memory_test {
namespace {

uint64_t MeasuredBytes(const Config& config) {
  Executor executor(config, 1000, AllSlots(config), 0, Purpose::kTraining, BestKernels());
  return executor.input().layer().MemoryBytes() + executor.output().MemoryBytes();
}

TEST_CASE("the memory of a slot is what executors take for it, within a few per cent") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const auto optimizer : {OptimizerKind::kAdam, OptimizerKind::kAdaGrad}) {
      for (const ActiveSet active : {ActiveSet::kAll, ActiveSet::kLsh, ActiveSet::kMass}) {
        Config config = SmallConfig(3000, 50000, 24);
        config.model.precision = precision;
        config.model.active = active;
        config.train.optimizer = optimizer;
        config.train.moments = MomentPrecision::kAuto;
        config.model.products = Products::kAuto;
        config.hash.k = 2;
        config.hash.tables = 10;
        ResolveConfig(3000, 50000, &config);
        const double expected = static_cast<double>(MeasuredBytes(config)) / config.cluster.slots;
        CHECK(static_cast<double>(SlotMemoryBytes(config)) ==
              doctest::Approx(expected).epsilon(0.03));
      }
    }
  }
}

}  // namespace
}  // namespace dslide::slot_memory_test
