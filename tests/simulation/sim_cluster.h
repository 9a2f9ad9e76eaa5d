// A whole run of a cluster in one thread: hosts, network and disk under virtual time, a supervisor
// that starts processes again, and the faults of a plan.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/world/sim_world.h"

namespace dslide::sim {

struct SimOutcome {
  std::vector<std::string> violations;
  uint64_t digest = 0;  // of the last checkpoint's rows
  uint32_t plans = 0;
  uint32_t restores = 0;  // of checkpoints, by these plans
  uint32_t checkpoints = 0;
  uint32_t lives = 0;        // of the scheduler
  uint32_t moves = 0;        // plans that carried the state on
  size_t most_servers = 0;   // in a plan
  bool first_layout = true;  // no slot was on its way elsewhere, all plans were as the first
  int64_t duration_us = 0;
  uint64_t events = 0;
  uint64_t messages = 0;
  std::vector<uint32_t> faults;  // that happened, by FaultKind
};

class SimCluster {
 public:
  // `trace_out`: where every event is told of; null: nowhere.
  SimCluster(const SimSetup& setup, FaultPlan plan, uint64_t seed, std::FILE* trace_out = nullptr);

  // Runs to the end of training, or to the deadline.
  SimOutcome Run();

 private:
  struct Pending {  // a fault that waits for its point
    Fault fault;
    uint32_t left;
    bool over = false;
  };

  SimHost& host(uint32_t number) { return *hosts_[number]; }
  void Launch(SimHost* host);
  void LaunchLater(SimHost* host, int64_t delay_us);
  std::unique_ptr<SimProcess> NewProcess(SimHost* host);
  void ScheduleTick(SimHost* host);
  void LookAfterExits();
  void BringBackTheGone();
  void CheckMayEnd(const SimHost& host, const Error& error);
  bool Finished() const;

  void ScheduleFaults(const std::vector<Fault>& faults);
  bool Reached(SimHost* reaching, Point point, size_t kind);
  void Happen(Fault fault);
  void Kill(SimHost* host);
  void EndFaults();
  void Judge();
  uint64_t DigestOfResult() const;

  HostNumbers numbers_;
  FaultPlan plan_;
  SimWorld world_;
  std::vector<std::unique_ptr<SimHost>> hosts_;
  std::vector<Pending> pending_;
  std::vector<bool> gone_;              // [hosts] for good
  std::vector<int64_t> away_until_us_;  // [hosts]
  std::vector<uint32_t> happened_;
  RunId run_;
  bool finished_ = false;  // the scheduler has ended well
};

}  // namespace dslide::sim
