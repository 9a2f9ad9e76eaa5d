// The scheduler process in the simulation: what scheduler/scheduler_shell.h does around a
// SchedulerCore.
#pragma once

#include "scheduler/core/scheduler_core.h"
#include "tests/simulation/world/sim_world.h"

namespace dslide::sim {

class SimScheduler : public SimProcess {
 public:
  SimScheduler(SimWorld* world, SimHost* host, RunId run);

  void Start() override;
  void Tick() override;
  void Stop() override;

  // What it last told of; not ok before the end.
  bool finished() const { return core_.phase() == SchedulerCore::Phase::kFinished; }

 private:
  RunInputs Inputs(RunId run) const;
  bool AppendToLedger(const std::vector<LedgerEntry>& entries, bool sync);
  void Receive(const PeerId& peer, const Bytes& bytes);
  void Apply(SchedulerCore::Effects effects);
  void Send(action::Send send);
  bool StoreManifest(Manifest manifest);
  void SendProbe(const Admission::Probe& probe);
  void TakeProbeAnswer(Incarnation server, const Bytes& bytes);

  SimWorld& world_;
  SimHost& host_;
  RunId run_;
  Incarnation incarnation_;
  uint64_t next_sequence_ = 1;
  SchedulerCore core_;
  std::map<Incarnation, SimNetwork::LinkId> probes_;  // links to servers that ask to join
  int64_t finished_us_ = -1;
  bool stopping_ = false;
};

}  // namespace dslide::sim
