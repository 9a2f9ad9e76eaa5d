#include "tests/server/support/training_run.h"

namespace dslide {

std::ostream& operator<<(std::ostream& out, const RunKind& kind) {
  return out << "optimizer " << static_cast<int>(kind.optimizer) << (kind.bf16 ? ", bf16" : "")
             << ", active set " << static_cast<int>(kind.active)
             << (kind.synchronous ? ", synchronous" : "") << (kind.tier ? ", disk tier" : "");
}

std::vector<RunKind> AllRunKinds() {
  std::vector<RunKind> kinds;
  for (const auto optimizer : {OptimizerKind::kAdaGrad, OptimizerKind::kAdam}) {
    for (const bool bf16 : {false, true}) {
      for (const auto active : {ActiveSet::kLsh, ActiveSet::kMass}) {
        for (const bool synchronous : {false, true}) {
          for (const bool tier : {false, true}) {
            kinds.push_back({optimizer, bf16, active, synchronous, tier});
          }
        }
      }
    }
  }
  return kinds;
}

Config RunConfig(const RunKind& kind) {
  Config config = SmallConfig(1500, 2003, 8);
  config.model.active = kind.active;
  config.model.negatives = 80;
  config.model.candidates = 6;
  config.hash.k = 2;
  config.hash.tables = 5;
  config.train.optimizer = kind.optimizer;
  config.train.learning_rate = kind.optimizer == OptimizerKind::kAdam ? 0.02f : 0.3f;
  config.train.batch = 8;
  config.train.dropout_hidden = 0.1f;
  if (kind.bf16) {
    config.model.precision = Precision::kBf16;
    config.model.products = Products::kBf16;
    config.train.moments = MomentPrecision::kBf16;
  }
  if (kind.synchronous) {
    config.train.target_batch = kStepBatches * config.train.batch;
    config.train.staleness = 0;
  }
  // A file system in memory; tests of rows/tier/ use a disk.
  if (kind.tier) config.cluster.disk_tier = "/dev/shm";
  ResolveConfig(1500, 2003, &config);
  return config;
}

LeaseBatch RunBatch(const Config& config, uint64_t number) {
  Random random(77 + number);
  return RandomBatch(config, config.train.batch, 3, &random);
}

void TrainRun(LocalCluster* cluster, uint64_t begin, uint64_t end,
              const std::function<void()>& between) {
  const Config& config = cluster->config();
  const bool synchronous = IsSynchronous(config.train);
  if (synchronous) cluster->Commit(begin / kStepBatches);
  for (uint64_t number = begin; number < end; ++number) {
    BatchFlight flight = cluster->Flight(RunBatch(config, number), number);
    while (!flight.done()) {
      cluster->TrainStage(&flight, 0);
      between();
    }
    if (synchronous && number % kStepBatches == kStepBatches - 1) {
      cluster->Commit(number / kStepBatches + 1);
      between();
    }
  }
}

}  // namespace dslide
