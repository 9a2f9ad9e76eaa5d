// An executor under observation: after each job the simulation looks at the weights themselves, and
// counts which batch has changed which slots.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "server/executor.h"
#include "tests/simulation/sim_disk.h"
#include "tests/simulation/sim_world.h"

namespace dslide::sim {

class SimExecutor {
 public:
  SimExecutor(SimWorld* world, std::string name, const Config& config, uint64_t train_samples,
              std::span<const SlotId> slots, uint32_t index);

  Body Handle(Incarnation sender, const Body& request);

  // The first job: from the seed, or from a checkpoint.
  Body Load(const SimCheckpoint* checkpoint);
  // All rows as they are now, and their shadow.
  void Save(SimShard* shard);

  Executor& executor() { return executor_; }

 private:
  using Digests = std::map<PartKey, uint64_t>;
  Digests DigestParts();
  void Observe(const Body& request, const Digests& before);

  SimWorld& world_;
  std::string name_;
  Config config_;
  uint64_t train_samples_;
  std::vector<SlotId> slots_;
  Executor executor_;
  Digests digests_;  // of the weights after the latest job
  AppliedShadow shadow_;
};

}  // namespace dslide::sim
