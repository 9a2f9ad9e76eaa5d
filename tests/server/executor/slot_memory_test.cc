// ModelMemoryBytes and SlotMemoryBytes against the memory of executors.
#include <doctest/doctest.h>

#include "scheduler/balance/model_size.h"
#include "server/executor/executor.h"
#include "tests/server/support/test_batches.h"

namespace dslide::slot_memory_test {
namespace {

uint64_t MeasuredBytes(const Config& config, const std::vector<SlotId>& slots) {
  Executor executor(config, 1000, slots, Purpose::kTraining, BestKernels());
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
        const auto same = [&](uint64_t bytes, const std::vector<SlotId>& slots) {
          const auto measured = static_cast<double>(MeasuredBytes(config, slots));
          CHECK(static_cast<double>(bytes) == doctest::Approx(measured).epsilon(0.03));
        };
        same(ModelMemoryBytes(config), AllSlots(config));
        const std::vector<uint64_t> of_slots = SlotMemoryBytes(config);
        same(of_slots.front(), {{0}});                        // of neurons
        same(of_slots.back(), {{config.cluster.slots - 1}});  // of input rows
      }
    }
  }
}

}  // namespace
}  // namespace dslide::slot_memory_test
