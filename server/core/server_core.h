// A server's decisions: joining, its slots, requests of workers, checkpoints.
//
// A pure core: messages and results of executors go in; messages and jobs come out. Requests are
// verified messages from anybody; each goes to all executors, and their parts make the reply.
//
// Plans of one generation carry the same state on. With a plan of another generation the server
// drops all that it has and fills its slots from the checkpoint that the plan names. With the next
// plan of the same one it keeps its slots but for those that moved: the ones that come it has been
// copying from their owners before (SlotFetcher), the ones that go stay readable until their new
// owners have them. Requests that come before it is ready for a plan wait. A server that the
// scheduler has given up begins a new life, with a new incarnation and nothing loaded.
//
// In several files: server_core.cc (messages, requests), server_plans.cc (joining, plans),
// server_moves.cc (slots that come and go), server_leaving.cc (checkpoints, the end).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "common/run/slot_plan.h"
#include "common/wire/messages.h"
#include "server/core/reply_cache.h"
#include "server/core/slot_fetcher.h"
#include "server/executor/executor_pool.h"
#include "server/executor/slot_job.h"

namespace dslide {

class ServerCore {
 public:
  static constexpr size_t kMaxOpen = 128;     // requests that the executors have before them
  static constexpr size_t kMaxWaiting = 512;  // requests for a step that is not open yet
  static constexpr size_t kMaxEarly = 512;    // requests for a plan that is not in force yet
  static constexpr size_t kMaxPuts = 32;      // parts of slots before the executors; then no pull

  struct Identity {
    Incarnation incarnation;
    std::string name;     // empty: the scheduler gives one
    std::string address;  // what workers dial
    uint32_t cores = 0;
    uint64_t memory_bytes = 0;
    double cpu_quota = 0;  // CPU seconds a second that its cgroup lets it use; 0: no limit
  };

  // Start executors for these slots in place of those there are, and fill them, under this ticket.
  struct Load {
    std::string server;  // its name and incarnation, for its own files
    Config config;
    uint64_t train_samples;
    std::vector<std::vector<SlotId>> slots;  // of each executor
    uint32_t first_executor;                 // number of the first one within the cluster
    std::string restore;                     // checkpoint directory, empty: initialise
    uint64_t ticket;
  };
  // Have the executors mark where they are, in the order of their work, and write that in the
  // background; then call HandleSaved().
  struct Save {
    std::string name;
    std::string directory;
    std::string shard;                  // sub-directory for this server
    std::vector<std::string> keep;      // earlier checkpoints that stay, by name
    std::vector<SlotId> slots;          // this server's, ascending
    std::optional<uint64_t> committed;  // synchronous training: the steps that it has to hold
    uint64_t ticket;
  };
  // For the executors: a request, or what to do with slots. Once the plan is newer than that of a
  // worker's request, the work is for nothing: the executors SHOULD answer kStalePlan instead.
  struct Work {
    uint64_t ticket;
    Incarnation sender;
    std::shared_ptr<const Body> request;
    std::shared_ptr<const SlotJob> job = nullptr;  // then there is no request
    uint32_t plan_version = 0;                     // of a worker's request

    bool StaleUnder(uint32_t plan) const { return plan_version != 0 && plan_version < plan; }
  };
  // The parts are Heartbeats with Executor::TakeLoad(), and Executor::Occupancy() if `tables`.
  struct Measurement {
    uint64_t ticket;
    bool tables;
  };
  struct Effects {
    std::vector<Message> to_scheduler;
    std::vector<std::pair<PeerId, Bytes>> to_workers;
    std::vector<std::pair<std::string, Message>> to_servers;  // by address
    std::string name;     // by which the scheduler knows it from now on; empty: as before
    bool unload = false;  // stop the executors: the slots are others' now
    std::optional<Load> load;
    std::optional<Save> save;
    std::optional<Measurement> measure;  // have the executors report their loads
    std::vector<Work> work;
    std::vector<std::string> notices;
    std::vector<std::string> warnings;
    std::optional<Status> exit;
  };

  explicit ServerCore(Identity identity);

  Effects Start(int64_t now_ms);
  Effects HandleScheduler(Message message, int64_t now_ms);
  // What another server answers.
  Effects HandleServer(Message message, int64_t now_us);
  // Times in microseconds, for the replies' service_us.
  Effects HandleWorker(const PeerId& peer, Message message, int64_t now_us);
  // A worker's bytes that were no message.
  Effects HandleMalformed(const PeerId& peer, const Error& error);
  // The outcome of Effects::save: all fields but the name and the shard, or an error.
  Effects HandleSaved(uint64_t ticket, CheckpointDone done, int64_t now_ms);
  // SIGTERM: leave once others have its slots, or, if nobody can take them, after a checkpoint of
  // the cluster, or at once if there is nothing to save. A second call: at once.
  Effects RequestStop(int64_t now_ms);
  // An executor finished its part of a ticket.
  Effects HandleOutcome(ExecutorPool::Outcome outcome, int64_t now_us);
  // Sends heartbeats with the figures of `usage`; joins again if the scheduler did not answer.
  Effects Tick(const Heartbeat& usage, int64_t now_ms);
  // The last messages of a server that leaves.
  Effects Goodbye(const Heartbeat& usage);

  // Whether it takes requests now. While it does not, they are left in the sockets' queues, and the
  // workers' own fill up: a server that is too slow slows those who ask.
  // Nor does one that saves what it has to leave without the scheduler: no batch may count that it
  // lacks.
  bool AcceptsRequests() const { return open_.size() < kMaxOpen && !saves_orphan_; }

  const Config* config() const { return config_ ? &*config_ : nullptr; }
  int64_t heard_ms() const { return heard_ms_; }  // the scheduler, last; at first when it began
  // Whether it may have a message for the server at an address.
  bool MayAsk(const std::string& address) const;
  Incarnation incarnation() const { return identity_.incarnation; }
  uint32_t plan_version() const { return plan_ ? plan_->version : 0; }  // 0: none
  uint64_t malformed() const { return malformed_; }
  // What it holds: requests that the executors work on or that wait for their step, and senders
  // whose replies are kept.
  size_t requests() const { return open_.size() + waiting_.size(); }
  size_t senders() const { return replies_.Senders().size(); }

 private:
  // Whom a request came from, and how it wants to be answered. No peer: from this core.
  struct Asker {
    PeerId peer;
    Incarnation incarnation;
    uint64_t sequence = 0;
    WirePrecision precision = WirePrecision::kBf16;
    int64_t arrived_us = 0;
    uint32_t plan_version = 0;  // of a worker's request
  };
  // What the executors are working on.
  struct Open {
    enum class Kind { kRequest, kLoad, kCommit, kMeasure, kSlotJob, kOwnPull };
    explicit Open(Kind k) : kind(k) {}
    Open(Kind k, Body body) : kind(k), request(std::make_shared<const Body>(std::move(body))) {}

    Kind kind;
    Asker asker;
    std::shared_ptr<const Body> request;
    std::shared_ptr<const SlotJob> job;
    std::optional<ActiveReply> active;       // of an ActiveQuery with `finish`, in its second half
    std::vector<std::optional<Body>> parts;  // [executors]
    size_t missing = 0;
  };

  struct Saving {
    CheckpointRequest request;
    uint64_t ticket;
  };
  // From a plan of the same generation until its slots are here.
  struct PlanSwitch {
    uint32_t from_version;
    int64_t began_us;
    std::vector<SlotId> arriving;
    bool attaching = false;  // they are all here
  };
  struct Departure {
    Incarnation to;
    uint32_t plan_version;  // with which it left; a release by an earlier one is of an earlier move
  };
  struct Release {
    PlanServer to;
    int64_t next_ms;
    uint32_t tries;
  };
  using InnerMoves = std::vector<std::pair<SlotId, uint32_t>>;  // to executors
  struct Early {  // a request for a plan that is not in force yet
    PeerId peer;
    Message message;
    int64_t arrived_us;
  };

  // The one that it asked for, else the one that it was given.
  const std::string& JoinName() const {
    return identity_.name.empty() ? given_name_ : identity_.name;
  }
  void SendJoin(int64_t now_ms);
  void BeginNewLife(int64_t now_ms);
  void DropGeneration();
  bool IsOfThisGeneration(const Envelope& envelope) const;
  void TakeEarly();
  void OnRequest(const PeerId& peer, Message message, int64_t now_us);
  void OnJoinReply(const Message& message, const JoinReply& reply);
  void OnPlan(const Plan& plan, int64_t now_ms);
  void LoadPlan(const Plan& plan, uint32_t index, int64_t now_ms);

  // Slots that come and go (server_moves.cc).
  void OnMoveSlots(const MoveSlots& move, int64_t now_ms);
  void BeginPlanSwitch(const Plan& plan, std::optional<uint32_t> index, int64_t now_ms);
  InnerMoves PlanInnerMoves(const std::vector<SlotId>& staying) const;
  void Reserve(const std::vector<SlotId>& slots, const Plan& from);
  void GiveUp(const std::vector<SlotId>& slots);
  size_t OpenPuts() const;
  void MakeRoom(const InnerMoves& places);
  void DoSlotJob(SlotJob job);
  void Pull(int64_t now_ms);
  void TakeRows(SlotRows rows, int64_t now_ms);
  void AdvanceMoves(int64_t now_ms);
  void CompletePlanSwitch(int64_t now_us);
  void OnSlotPull(const PeerId& peer, const Message& message, const SlotPull& pull, int64_t now_us);
  bool IsOfPlan(Incarnation server) const;
  void OnRelease(const PeerId& peer, const Envelope& envelope, SlotId slot, int64_t now_us);
  void ReleaseSlot(SlotId slot);
  void LeaveIfEmpty();
  void OnFailedSlotJob(const SlotJob& job, const std::string& why, int64_t now_ms);
  void CompleteSlotJob(const SlotJob& job, const std::vector<Body>& parts, int64_t now_us);
  std::vector<SlotId> OwnSlots() const;

  void OnCheckpoint(const CheckpointRequest& request);
  void MeetScheduler(Incarnation life);
  void OnDrop(const DropBatches& drop);
  void OnCommit(const CommitSteps& commit);
  bool MustWait(const Body& request) const;
  std::string WhyRefused(const Body& request) const;
  void OnSchedulerError(const ErrorReply& error, int64_t now_ms);
  bool AnswersStop(const Message& message, int64_t now_ms);
  void AskForCheckpoint(int64_t now_ms);
  void SendCheckpointNow(int64_t now_ms);
  void TendStop(int64_t now_ms);
  void StartSave(CheckpointRequest request);
  void LeaveWithoutScheduler(int64_t silent_ms);
  uint64_t OpenTicket(Open open);
  void Submit(Open open);
  void Complete(Open open, int64_t now_us);
  void CompleteRequest(Open open, std::vector<Body> parts, int64_t now_us);
  void ApplyQuota(LoadReport* load) const;
  void NoteMeasured(const std::vector<Body>& parts, int64_t now_ms);
  void Measure(int64_t now_ms);
  void Refuse(const PeerId& peer, uint64_t sequence, ErrorReply error);
  void ReplyTo(const Asker& asker, Body body, int64_t now_us);
  void SendHeartbeat(const Heartbeat& usage);
  Message Envelop(Body body, uint64_t reply_to = 0);
  // At the end of every call from outside.
  Effects Drain();
  void CheckInvariants() const;

  Identity identity_;
  RunId run_;
  std::string given_name_;  // by which the scheduler knows it
  uint64_t next_sequence_ = 1;
  std::optional<Config> config_;
  uint64_t train_samples_ = 0;
  std::optional<Plan> plan_;    // in which this server has a seat
  uint64_t life_sequence_ = 1;  // first of this life: replies to earlier ones are not for it
  uint32_t index_ = 0;          // in the plan
  uint32_t executors_ = 1;
  bool loaded_ = false;                // all slots of plan_, or of the one before while switch_
  std::vector<uint32_t> executor_of_;  // [V] of this server's slots
  std::optional<PlanSwitch> switch_;
  std::deque<Early> early_;
  std::optional<Plan>
      next_plan_;  // that came during a plan switch, or while a checkpoint is being written
  SlotFetcher fetcher_;
  uint64_t move_ = 0;  // of the last MoveSlots
  bool move_ready_ = false;
  std::map<uint64_t, SlotId> pulls_;           // sent to other servers, by sequence
  std::map<SlotId, Release> release_;          // slots that came, until their old owners know
  std::map<SlotId, Departure> leaving_slots_;  // that have gone, until their new owners have them
  bool without_slots_ = false;                 // the plan is without this server
  std::optional<ErrorReply> load_error_;       // why the plan's slots could not be loaded
  uint64_t next_ticket_ = 1;
  std::map<uint64_t, Open> open_;
  std::optional<uint64_t> committed_;      // steps; none before the first CommitSteps
  std::multimap<uint64_t, Open> waiting_;  // requests for a step that is not open yet, by step
  ReplyCache replies_;
  uint64_t malformed_ = 0;
  Ready ready_;                             // as it was sent
  Incarnation scheduler_;                   // its life that was heard last
  std::set<Incarnation> fenced_;            // workers that the scheduler dropped
  std::optional<Saving> saving_;            // the checkpoint being written
  CheckpointDone saved_;                    // the last one of this plan
  std::string checkpoints_;                 // where they lie, once that was told
  bool stop_requested_ = false;             // SIGTERM
  std::optional<uint64_t> drain_sequence_;  // of the DrainServer before leaving
  std::optional<uint64_t> stop_sequence_;   // of the CheckpointNow before leaving
  int64_t stop_by_ms_ = 0;
  int64_t drain_sent_ms_ = 0;
  int64_t stop_sent_ms_ = 0;
  bool stop_unheard_ = false;  // the CheckpointNow may be lost, or found nobody to decide
  bool orphaned_ = false;  // the scheduler is gone; the checkpoint being written is the last thing
  bool saves_orphan_ = false;  // and that is its own: it leaves even if the scheduler comes back
  int64_t join_sent_ms_ = 0;
  int64_t heard_ms_ = 0;  // the scheduler, last
  int64_t heartbeat_ms_ = 0;
  int64_t tables_ms_ = 0;      // measured last
  int64_t load_since_ms_ = 0;  // what the next measurement counts from
  double load_since_cpu_s_ = 0;
  double cpu_s_ = 0;  // that this process has used, at the last tick
  std::optional<Measurement> measuring_;
  std::map<SlotId, double> slot_work_;  // a batch, smoothed
  Heartbeat measured_;                  // what comes from the executors, as last measured
  Effects effects_;
};

}  // namespace dslide
