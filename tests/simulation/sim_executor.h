// An executor under observation: after each job the simulation looks at the weights themselves, and
// counts which batch has changed which slots.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/executor/executor.h"
#include "tests/simulation/sim_store.h"
#include "tests/simulation/world/sim_disk.h"
#include "tests/simulation/world/sim_world.h"

namespace dslide::sim {

class SimExecutor {
 public:
  // `number`: within its server.
  SimExecutor(SimWorld* world, std::string name, const Config& config, uint64_t train_samples,
              std::span<const SlotId> slots, uint32_t number);

  // Does a job as RunJob() does, and looks at what it did to the weights.
  JobReply Run(const ExecutorJob& job, uint32_t plan_version);
  // Fills it from a checkpoint. `*store` has its rows then, if `stored`.
  Status Restore(const SimCheckpoint& checkpoint, SimStore* store, bool stored);
  // Does a MarkJob, and tells the store which rows it has to get.
  JobReply Mark(SimStore* store, const std::optional<uint64_t>& committed, uint32_t plan_version);

  Executor& executor() { return executor_; }

 private:
  using Digests = std::map<PartKey, uint64_t>;

  std::array<Layer*, 2> layers() {
    return {&executor_.input().layer(), &executor_.output().layer()};
  }
  Digests DigestParts();
  // What a job did to the weights.
  void Observe(const Body& request, const Digests& before);
  void ObserveGradient(const PartKey& part, const BatchId& batch, const Body& request,
                       bool changed);
  bool MustChange(const PartKey& part, const Body& request) const;
  bool Recorded(const PartKey& part, uint64_t batch) const;
  void FollowSlots(uint32_t plan_version);
  // Made up from the number of the slot and the setup: real times would differ from run to run.
  // `worked`: batches were trained since the last report.
  ExecutorLoad Load(bool worked) const;

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
