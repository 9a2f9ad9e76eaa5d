// A server's decisions: joining, its slots, requests of workers, checkpoints, leaving.
//
// A pure core: messages, results of executors and the time go in; messages and jobs come out.
// Requests are verified messages, but anybody may send them. The core is a dispatcher: each part
// below owns its fields, and the core passes values between them.
//
//   ServerOutbox       messages, jobs and log lines of this call; the link to the scheduler
//   LoadMeter          what the slots cost, for the heartbeats
//   OrderlyStop        leaving after SIGTERM
//   ServerGeneration   all that belongs to the plans of one generation:
//     ServerSeat         the plan in force
//     RequestTable       requests from their arrival to the reply
//     SlotMigration      slots that come and go
//     Saver              checkpoints
//
// With a plan of another generation the server drops its ServerGeneration and fills its slots from
// the checkpoint that the plan names. A server that the scheduler has given up begins a new life,
// with a new incarnation and nothing loaded.
//
// In two files: server_core.cc (messages, requests, results), server_plans.cc (joining, plans).
// Owned by the network thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/wire/messages.h"
#include "server/base/actions.h"
#include "server/base/outbox.h"
#include "server/core/generation.h"
#include "server/core/load_meter.h"
#include "server/core/orderly_stop.h"
#include "server/executor/executor_pool.h"
#include "server/gate/offence_reports.h"
#include "server/rows/row_disk.h"

namespace dslide {

class ServerCore {
 public:
  static constexpr size_t kMaxOpen = 128;  // jobs that the executors have before them

  static constexpr int64_t kSilentWorkerMs = 120'000;
  static constexpr int64_t kMalformedEveryMs = 1000;
  static constexpr size_t kMalformedAnswers = 32;  // in that time, to different peers

  using Actions = ServerActions;
  struct Identity {
    Incarnation incarnation;
    std::string name;     // empty: the scheduler gives one
    std::string address;  // what workers dial
    uint32_t cores = 0;
    uint64_t memory_bytes = 0;
    double cpu_quota = 0;  // CPU seconds a second that its cgroup lets it use; 0: no limit
    RowDisk disk = {};
  };

  explicit ServerCore(Identity identity);

  Actions Start(int64_t now_ms);
  Actions HandleScheduler(Message message, int64_t now_ms);
  // What another server answers.
  Actions HandleServer(Message message, int64_t now_us);
  // A request of a worker or another server. Times in microseconds, for the replies' service_us.
  Actions HandleWorker(const PeerId& peer, Message message, int64_t now_us);
  // A worker's bytes that were no message. A second has one line about such, and an answer to each
  // of the first peers that sent some.
  Actions HandleMalformed(const PeerId& peer, const Error& error, int64_t now_ms);
  // The outcome of a ServerSave: all fields but the name and the shard, or an error.
  // `lost`: with an error that is not to be retried: the store has no rows any more.
  Actions HandleSaved(uint64_t job_id, CheckpointDone done, int64_t now_ms, bool lost = true);
  // SIGTERM: leave once others have its slots, or, if nobody can take them, after a checkpoint of
  // the cluster, or at once if there is nothing to save. A second call: at once.
  Actions RequestStop(int64_t now_ms);
  // An executor finished its part of a job.
  Actions HandleOutcome(ExecutorPool::Outcome outcome, int64_t now_us);
  // Sends heartbeats with the figures of `usage`; joins again if the scheduler did not answer.
  Actions Tick(const Heartbeat& usage, int64_t now_ms);
  // The last messages of a server that leaves.
  Actions Goodbye(const Heartbeat& usage);

  // Whether it takes requests now. While it does not, they are left in the sockets' queues, and the
  // workers' own queues fill up: a server that is too slow slows those who ask. False too while it
  // writes its last snapshot before it leaves: a batch accepted then would be missing from it.
  bool AcceptsRequests() const;

  const Config* config() const { return config_ ? &*config_ : nullptr; }
  int64_t heard_ms() const { return out_.link().heard_ms(); }
  // Whether it may have a message for this life of the server at an address.
  bool MayAsk(const std::string& address, Incarnation server) const;
  Incarnation incarnation() const { return out_.link().incarnation(); }
  uint32_t plan_version() const { return out_.plan_version(); }  // 0: none
  uint64_t malformed() const { return malformed_; }
  // What it holds: jobs that the executors work on and requests that wait for their step, and
  // senders whose replies are kept.
  size_t requests() const;
  size_t senders() const;

 private:
  bool loaded() const { return generation_ && generation_->loaded; }
  bool without_slots() const { return generation_ && generation_->without_slots(); }
  // The name that it asked for, else the one that it was given.
  const std::string& JoinName() const {
    return identity_.name.empty() ? given_name_ : identity_.name;
  }
  OrderlyStop::Situation StopSituation() const;

  // Joining and plans (server_plans.cc).
  void SendJoin(int64_t now_ms);
  void BeginNewLife(int64_t now_ms);
  void DropGeneration();
  void OnJoinReply(const Message& message, const JoinReply& reply);
  void SetKeys(std::optional<ServerKeys> keys);
  void OnPlan(const Plan& plan, int64_t now_ms);
  void LoadPlan(const Plan& plan, const Config& config, uint32_t index, int64_t now_ms);
  void FollowNextPlan(int64_t now_ms);

  void MeetScheduler(Incarnation life);
  void OnDismissal(const Message& message, int64_t now_ms);
  void OnSchedulerError(const ErrorReply& error, int64_t now_ms);
  void OnShutdown(const Shutdown& shutdown);
  void LeaveWithoutScheduler(int64_t silent_ms);
  void TakeResult(OpenJobs::Finished job, int64_t now_us);
  void OnSlotMoved(const SlotJob& job, const std::vector<JobReply>& parts, int64_t now_us);
  void SendHeartbeat(const Heartbeat& usage);

  // At the end of every call from outside.
  Actions Drain();
  void CheckInvariants() const;

  Identity identity_;
  std::string given_name_;        // by which the scheduler knows it
  std::optional<Config> config_;  // of the run that it has joined
  uint64_t train_samples_ = 0;
  Incarnation scheduler_;           // the scheduler's life that was heard last
  std::optional<ServerKeys> keys_;  // of that life; none: it has not told it yet
  uint64_t malformed_ = 0;
  int64_t malformed_logged_ms_ = -kMalformedEveryMs;
  std::set<PeerId> malformed_answered_;  // since then
  ServerOutbox out_;
  OffenceReports offence_reports_;
  LoadMeter load_;
  OrderlyStop stop_;
  std::optional<ServerGeneration> generation_;  // none: no seat in any plan
};

}  // namespace dslide
