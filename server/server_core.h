// A server's decisions: joining, its slots, requests of workers, checkpoints.
//
// A pure core: messages and results of executors go in; messages and jobs come out. Requests are
// verified messages from anybody; each goes to all executors, and their parts make the reply.
//
// A plan is a generation: with a newer one the server drops all that it has and fills its slots
// from the checkpoint that the plan names. A server that the scheduler has given up begins a new
// life, with a new incarnation and nothing loaded.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/net/messages.h"
#include "common/net/slot_plan.h"
#include "common/net/socket.h"
#include "server/executor_pool.h"
#include "server/reply_cache.h"

namespace dslide {

class ServerCore {
 public:
  static constexpr size_t kMaxOpen = 128;     // requests that the executors have before them
  static constexpr size_t kMaxWaiting = 512;  // requests for a step that is not open yet

  struct Identity {
    Incarnation incarnation;
    std::string name;     // empty: the scheduler gives one
    std::string address;  // what workers dial
    uint32_t cores = 0;
    uint64_t memory_bytes = 0;
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
  struct Work {
    uint64_t ticket;
    Incarnation sender;
    std::shared_ptr<const Body> request;
  };
  struct Effects {
    std::vector<Message> to_scheduler;
    std::vector<std::pair<PeerId, Bytes>> to_workers;
    bool unload = false;  // stop the executors: the slots are others' now
    std::optional<Load> load;
    std::optional<Save> save;
    std::optional<uint64_t> occupancy;  // ticket: have the executors report their tables
    std::vector<Work> work;
    std::vector<std::string> notices;
    std::optional<Status> exit;
  };

  explicit ServerCore(Identity identity);

  Effects Start(int64_t now_ms);
  Effects HandleScheduler(Message message, int64_t now_ms);
  // Times in microseconds, for the replies' service_us.
  Effects HandleWorker(const PeerId& peer, Message message, int64_t now_us);
  // A worker's bytes that were no message.
  Effects HandleMalformed(const PeerId& peer, const Error& error);
  // The outcome of Effects::save: all fields but the name and the shard, or an error.
  Effects HandleSaved(uint64_t ticket, CheckpointDone done);
  // SIGTERM: leave after a checkpoint of the cluster, or at once if there is nothing to save. A
  // second call: at once.
  Effects RequestStop(int64_t now_ms);
  // An executor finished its part of a ticket.
  Effects HandleOutcome(ExecutorPool::Outcome outcome, int64_t now_us);
  // The work could not be submitted: the executors' queues are full.
  Effects Reject(uint64_t ticket);
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
  Incarnation incarnation() const { return identity_.incarnation; }
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
  };
  // A request, load or commit that the executors are working on.
  struct Open {
    enum class Kind { kRequest, kLoad, kCommit, kOccupancy };
    explicit Open(Kind k) : kind(k) {}
    Open(Kind k, Body body) : kind(k), request(std::make_shared<const Body>(std::move(body))) {}

    Kind kind;
    Asker asker;
    std::shared_ptr<const Body> request;
    std::optional<ActiveReply> active;       // of an ActiveQuery with `finish`, in its second half
    std::vector<std::optional<Body>> parts;  // [executors]
    size_t missing = 0;
  };

  struct Saving {
    CheckpointRequest request;
    uint64_t ticket;
  };

  // The one that it asked for, else the one that the scheduler gave it.
  const std::string& Name() const { return identity_.name.empty() ? given_name_ : identity_.name; }
  void SendJoin(int64_t now_ms);
  void BeginNewLife(int64_t now_ms);
  void DropGeneration();
  bool IsOfThisPlan(const Envelope& envelope) const;
  void OnJoinReply(const Message& message, const JoinReply& reply);
  void OnPlan(const Plan& plan);
  void OnCheckpoint(const CheckpointRequest& request);
  void MeetScheduler(Incarnation life);
  void OnDrop(const DropBatches& drop);
  void OnCommit(const CommitSteps& commit);
  bool MustWait(const Body& request) const;
  std::string WhyRefused(const Body& request) const;
  void OnSchedulerError(const ErrorReply& error, int64_t now_ms);
  void StartSave(CheckpointRequest request);
  void LeaveWithoutScheduler(int64_t silent_ms);
  uint64_t OpenTicket(Open open);
  void Submit(Open open);
  void Complete(Open open, int64_t now_us);
  void CompleteRequest(Open open, std::vector<Body> parts, int64_t now_us);
  void NoteOccupancy(const std::vector<Body>& parts);
  void Refuse(const PeerId& peer, uint64_t sequence, ErrorReply error);
  void ReplyTo(const Asker& asker, Body body, int64_t now_us);
  void SendHeartbeat(const Heartbeat& usage);
  Message Envelop(Body body, uint64_t reply_to = 0);
  Effects Take();

  Identity identity_;
  RunId run_;
  std::string given_name_;  // by the scheduler
  uint64_t next_sequence_ = 1;
  std::optional<Config> config_;
  uint64_t train_samples_ = 0;
  std::optional<Plan> plan_;    // in which this server has a seat
  uint64_t life_sequence_ = 1;  // first of this life: replies to earlier ones are not for it
  uint32_t index_ = 0;          // in the plan
  uint32_t executors_ = 1;
  bool loaded_ = false;
  std::optional<ErrorReply> load_error_;  // why the plan's slots could not be loaded
  uint64_t next_ticket_ = 1;
  std::map<uint64_t, Open> open_;
  std::optional<uint64_t> committed_;      // steps; none before the first CommitSteps
  std::multimap<uint64_t, Open> waiting_;  // requests for a step that is not open yet, by step
  ReplyCache replies_;
  uint64_t malformed_ = 0;
  Ready ready_;                            // as it was sent
  Incarnation scheduler_;                  // its life that was heard last
  std::set<Incarnation> fenced_;           // workers that the scheduler dropped
  std::optional<Saving> saving_;           // the checkpoint being written
  CheckpointDone saved_;                   // the last one of this plan
  std::string checkpoints_;                // where they lie, once that was told
  std::optional<uint64_t> stop_sequence_;  // of the CheckpointNow before leaving
  int64_t stop_by_ms_ = 0;
  bool leaving_ = false;  // the scheduler is gone; the checkpoint being written is the last thing
  bool saves_orphan_ = false;  // and that is its own: it leaves even if the scheduler comes back
  int64_t join_sent_ms_ = 0;
  int64_t heard_ms_ = 0;  // the scheduler, last
  int64_t heartbeat_ms_ = 0;
  int64_t occupancy_ms_ = 0;
  Heartbeat occupancy_;  // the fields bucket_* and rehash_lag_batches, as last reported
  Effects effects_;
};

}  // namespace dslide
