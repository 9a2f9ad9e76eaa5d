// A worker's decisions: leases asked for, batches in flight, requests sent again.
//
// A pure core: messages and time (microseconds) go in, messages come out. It holds no parameters,
// and nothing that is lost when it dies: what it had leased returns to the scheduler. A worker that
// was taken for dead, or meets a new life of the scheduler, begins a new life itself: a new
// incarnation, without the work of the old one. A plan of another generation takes its work away as
// well. With the next plan of the same generation it begins the batches in flight again (servers
// apply each batch once).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/config/config.h"
#include "common/log/event.h"
#include "common/run/dense_copies.h"
#include "common/run/scheduler_link.h"
#include "common/wire/messages.h"
#include "worker/flight_table.h"
#include "worker/in_flight_control.h"
#include "worker/lease_queue.h"
#include "worker/local_data.h"
#include "worker/server_links.h"

namespace dslide {

class WorkerCore {
 public:
  static constexpr uint32_t kScheduler = 0xffffffffu;

  struct Outgoing {
    uint32_t to;  // server index in the plan, or kScheduler
    Message message;
    WirePrecision precision = WirePrecision::kBf16;
  };
  struct Effects {
    std::vector<Outgoing> send;
    std::optional<Plan> connect;  // dial these servers before sending
    std::vector<Event> notices;
    std::vector<Event> failed_batches;  // an event for each that begins again or is given up
    std::optional<Status> exit;         // leave with this outcome
    // The scheduler has dismissed this worker and ends with this exit code; 0: the run is done.
    std::optional<uint32_t> dismissed;
  };

  // `file`: the training file, if the worker has it; must outlive the core.
  WorkerCore(Incarnation incarnation, std::string name, uint32_t cores,
             const TrainingFile* file = nullptr);

  // The first message to the scheduler, and again after a silence or when it asks for it.
  Effects Start(int64_t now_us);
  // `bytes`: size of the message on the wire, for the batch's account.
  Effects Handle(uint32_t from, Message message, size_t bytes, int64_t now_us);
  // A server sent what is no message.
  void OnMalformed(uint32_t server, int64_t now_us) {
    if (work_ && server < links_.size()) links_.Judge(server, false, now_us);
  }
  // Repeats requests without reply, asks for leases, sends heartbeats with the figures of `usage`.
  Effects Tick(const Heartbeat& usage, int64_t now_us);
  // The last messages of a worker that leaves.
  Effects Goodbye(const Heartbeat& usage);
  // The shell reports what a message of this core took on the wire.
  void NoteSent(const Message& message, size_t bytes);
  // SIGTERM: start no new batches, finish those in flight, leave; after kStopMs in any case. A
  // server may be missing, and who sent the signal waits half a minute as a rule.
  static constexpr int64_t kStopMs = 20'000;
  void RequestStop() {
    if (!std::exchange(stopping_, true)) stop_asked_us_ = now_us_;
  }
  // By the owner of the machine. While it is held the worker begins no batch and asks for no lease.
  // `in_flight_cap`: batches in flight; 0: any number.
  void Hold(bool held, uint32_t in_flight_cap);

  bool joined() const { return config_ != nullptr; }
  const std::string& given_name() const { return given_name_; }  // in the roster; "" before
  // From one heartbeat to the next; before the worker has joined, the default.
  uint32_t heartbeat_ms() const {
    return (config_ == nullptr ? Config() : *config_).cluster.heartbeat_ms;
  }
  int64_t heard_ms() const { return link_.heard_ms(); }

 private:
  struct Report {  // of a batch that is done, until the scheduler has it
    BatchDone done;
    uint32_t plan_version;  // by which it was trained
    int64_t sent_ms;
  };
  // What a worker has in hand. It is of use while plans of one generation follow one another.
  struct Work {
    LeaseQueue leases;
    FlightTable flights;
    std::map<uint64_t, Report> reports;  // by sequence
    DenseCopies dense;                   // of plan_
    int64_t paused_until_us = 0;         // by the scheduler: no batch begins before
    bool told_idle = false;              // in this pause
  };
  enum class After { kBeginAgain, kGiveUp };

  int64_t NowMs() const { return now_us_ / 1000; }
  // Messages.
  void OnSchedulerMessage(Message message);
  void OnJoinReply(const Message& message, const JoinReply& reply);
  void OnPlan(const Plan& plan);
  void OnGrant(LeaseGrant grant);
  void OnHeartbeatReply(const HeartbeatReply& reply);
  void OnShutdown(const Shutdown& shutdown);
  void OnError(const ErrorReply& error);
  void OnServerReply(uint32_t server, Message message, size_t bytes);
  void OnServerError(const AwaitedReply& request, const ErrorReply& error);
  void Pushed(const AwaitedReply& request, Message reply);

  // Batches.
  bool Paused() const { return now_us_ < work_->paused_until_us; }
  uint32_t InFlightLimit() const;
  bool IsOfWarmup(const LeasedBatch& leased) const;
  bool HasRoomFor(const LeasedBatch& next, uint64_t step) const;
  bool WantsLease() const;
  void RequestLease();
  std::optional<uint64_t> StartNext(std::optional<uint64_t> with);
  std::shared_ptr<const DenseWeights> DenseFor(const LeasedBatch& leased, uint64_t step);
  void Fill();
  WirePrecision PrecisionOf(uint64_t flight, uint32_t server) const;
  void SendStage(uint64_t flight, std::optional<uint64_t> next = std::nullopt);
  void TakeReply(uint64_t flight, uint32_t server, Message reply);
  void Proceed(uint64_t flight);
  void EndAsDiverged(const std::string& why);
  void FailFlight(uint64_t flight, const std::string& why, After after = After::kBeginAgain);
  void GiveWaitingBack();
  void SendReport(BatchDone done);
  void Probe(uint64_t flight, uint32_t server);
  void ProbeServers();
  void SendAgain();
  void BeginAgain();
  void EndPause();

  void SendJoin();
  void BeginNewLife();
  void SendHeartbeat(const Heartbeat& usage);
  uint64_t Send(uint32_t to, Body body, WirePrecision precision = WirePrecision::kBf16);
  // Ends every public call.
  Effects Drain();
  void CheckInvariants() const;

  SchedulerLink link_;
  std::string name_;  // asked for
  std::string given_name_;
  uint32_t cores_;
  LocalData local_;
  int64_t now_us_ = 0;  // of the call
  bool stopping_ = false;
  int64_t stop_asked_us_ = 0;
  bool held_ = false;
  int64_t held_since_us_ = 0;
  uint32_t owners_cap_ = 0;
  Config joined_config_;            // without what plans change
  std::unique_ptr<Config> config_;  // null: not joined. Stable address: flights refer to it
  uint64_t train_samples_ = 0;
  Plan plan_;                 // the latest
  std::optional<Work> work_;  // by plan_; nullopt: no plan of this life and run is known
  ServerLinks links_;         // to the servers of plan_
  InFlightControl in_flight_{0};
  uint32_t in_flight_cap_ = 0;    // by the scheduler; 0: none
  int64_t longest_batch_us_ = 0;  // since the last heartbeat
  Effects effects_;
};

}  // namespace dslide
