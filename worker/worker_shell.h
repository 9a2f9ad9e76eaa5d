// The worker process: sockets around a WorkerCore.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/net/member_link.h"
#include "common/net/socket.h"
#include "worker/worker_core.h"

namespace dslide {

struct WorkerOptions {
  SchedulerAccess scheduler;
  std::string name;
  std::string data;  // the training file, if this machine has it; else empty
};

// Runs until the scheduler ends the run, or until a signal; then it finishes the batches in flight.
class WorkerShell {
 public:
  static Status Run(const WorkerOptions& options, StopSignals* signals);

 private:
  WorkerShell(NetContext* context, WorkerCore core, DealerSocket scheduler,
              SchedulerAccess scheduler_access);

  Status Loop(StopSignals* signals);
  void Apply(WorkerCore::Effects effects);
  void Dial(const Plan& plan);
  std::optional<DealerSocket> DialServer(const PlanServer& server);
  DealerSocket* SocketOf(uint32_t peer);  // null: not in the plan, or cannot be dialled
  void Receive(uint32_t from);
  void TakeAccess(const AccessList& list);
  void CheckHandshakes();

  NetContext* context_;
  AwakeClock clock_;
  WorkerCore core_;
  DealerSocket scheduler_;
  SchedulerAccess scheduler_access_;
  AccessListHolder access_;  // the servers' keys
  SilenceReport silence_;
  std::vector<std::optional<DealerSocket>> servers_;  // in plan order; nullopt: cannot be dialled
  std::vector<PlanServer> plan_;                      // of servers_
  Poller poller_;
  int stop_fd_ = -1;
  bool stopping_ = false;
  bool lies_ = false;  // Failpoint::kWorkerLie was passed
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;
  std::optional<Status> exit_;
};

}  // namespace dslide
