// A worker's session with the scheduler: sockets around a WorkerCore.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/process.h"
#include "common/log/event.h"
#include "common/log/line_limit.h"
#include "common/net/member_link.h"
#include "common/net/socket.h"
#include "worker/lent_machine.h"
#include "worker/worker_core.h"

namespace dslide {

// How a session has ended. The worker has said goodbye: what it had leased is with the scheduler.
struct SessionEnd {
  Status outcome;
  bool rests = false;    // the owner's policy pauses
  bool stopped = false;  // by a signal
  // The scheduler has dismissed it and ends with this exit code; 0: the run is done.
  std::optional<uint32_t> dismissed;
  std::string name;  // in the roster; "": it had not joined
};

// Runs until the scheduler ends the run, or until a signal; then it finishes the batches in flight.
// On a lent machine it ends as well when the owner's policy pauses.
class WorkerShell {
 public:
  // `file`: the training file, if the worker has it. It and `lent` may be null, and must outlive
  // the session. `redials`: dials anew when the scheduler has been silent for kRedialMs.
  struct Options {
    SchedulerAccess scheduler;
    std::string name;
    const TrainingFile* file = nullptr;
    LentMachine* lent = nullptr;
    bool redials = false;
  };
  static constexpr int64_t kRedialMs = 10'000;         // or three heartbeats, if that is longer
  static constexpr int64_t kFinishMs = 3000;           // for the batches in flight, before a pause
  static constexpr int64_t kFailedBatchesMs = 60'000;  // between log lines about failed batches

  // Errors (kBadInput) are about the scheduler's address.
  static Result<SessionEnd> Run(NetContext* context, const Options& options, StopSignals* signals);

 private:
  WorkerShell(NetContext* context, const Options& options, DealerSocket scheduler);

  SessionEnd Loop(StopSignals* signals);
  // On a lent machine: obeys the owner's policy.
  void Obey();
  bool FinishesForPause() const { return rests_at_ms_.has_value(); }
  void Stop();
  // Dials all peers again: connections of an address that this machine no longer has, or that a
  // NAT has forgotten, look as if they were open.
  void Redial();
  int64_t PatienceMs() const;  // with a scheduler that is silent
  void Say(Event event);
  Heartbeat Usage() const;
  void Apply(WorkerCore::Effects effects);
  void Dial(const Plan& plan);
  std::optional<DealerSocket> DialServer(const PlanServer& server);
  DealerSocket* SocketOf(uint32_t peer);  // null: not in the plan, or cannot be dialled
  void Receive(uint32_t from);
  void TakeAccess(const AccessList& list);
  void CheckHandshakes();
  void CountForOwner(const Message& message, size_t bytes);
  void WatchSockets();

  NetContext* context_;
  Options options_;
  AwakeClock clock_;
  WorkerCore core_;
  DealerSocket scheduler_;
  AccessListHolder access_;  // the servers' keys
  SilenceReport silence_;
  LineLimit failed_batches_{1, kFailedBatchesMs};
  LineLimit full_queues_;
  std::vector<std::optional<DealerSocket>> servers_;  // in plan order; nullopt: cannot be dialled
  std::vector<PlanServer> plan_;                      // of servers_
  Poller poller_;
  int stop_fd_ = -1;
  bool stopping_ = false;
  bool lies_ = false;  // Failpoint::kWorkerLie was passed
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;
  double cpu_before_s_;                 // of this process, before the session
  uint64_t reported_ = 0;               // sequence of the last report
  int64_t dialled_ms_ = 0;              // when all peers were dialled last
  std::optional<int64_t> rests_at_ms_;  // when the batches in flight are given up for a pause
  std::optional<uint32_t> dismissed_;   // SessionEnd::dismissed
  std::optional<Status> exit_;
};

}  // namespace dslide
