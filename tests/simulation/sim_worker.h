// A worker process in the simulation: what worker/worker_shell.h does around a WorkerCore, on the
// simulated network.
#pragma once

#include <string>
#include <vector>

#include "tests/simulation/world/sim_world.h"
#include "worker/worker_core.h"

namespace dslide::sim {

class SimWorker : public SimProcess {
 public:
  // `file`: the training file, or null.
  SimWorker(SimWorld* world, SimHost* host, const TrainingFile* file);

  void Start() override;
  void Tick() override;
  void Stop() override;

 private:
  void Receive(uint32_t from, const Bytes& bytes);
  void Apply(WorkerCore::Effects effects);
  void Dial(const Plan& plan);
  void Leave(Status outcome);

  SimWorld& world_;
  SimHost& host_;
  WorkerCore core_;
  SimNetwork::LinkId scheduler_ = 0;
  std::vector<SimNetwork::LinkId> servers_;  // in plan order
  bool stopping_ = false;
};

}  // namespace dslide::sim
