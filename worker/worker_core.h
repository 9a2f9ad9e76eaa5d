// A worker's decisions: leases asked for, batches in flight, requests sent again.
//
// A pure core: messages and time (microseconds) go in, messages come out. It holds no parameters,
// and nothing that is lost when it dies: what it had leased returns to the scheduler. A worker that
// was taken for dead, or meets a new life of the scheduler, begins a new life itself: a new
// incarnation, without the work of the old one. A plan of another generation takes its work from it
// as well; with the next plan of the same one it begins the batches in flight anew (servers apply
// each batch once).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/run/scheduler_link.h"
#include "common/wire/messages.h"
#include "worker/batch_flight.h"
#include "worker/in_flight_control.h"
#include "worker/link_meter.h"
#include "worker/local_data.h"

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
    std::vector<std::string> notices;
    std::optional<Status> exit;  // leave with this outcome
  };

  // `file`: the training file, if the worker has it; must outlive the core.
  WorkerCore(Incarnation incarnation, std::string name, uint32_t cores,
             const TrainingFile* file = nullptr);

  // The first message to the scheduler, and again after a silence or when it asks for it.
  Effects Start(int64_t now_us);
  // `bytes`: size of the message on the wire, for the batch's account.
  Effects Handle(uint32_t from, Message message, size_t bytes, int64_t now_us);
  // Repeats requests without reply, asks for leases, sends heartbeats with the figures of `usage`.
  Effects Tick(const Heartbeat& usage, int64_t now_us);
  // The last messages of a worker that leaves.
  Effects Goodbye(const Heartbeat& usage);
  // The shell reports what a message of this core took on the wire.
  void NoteSent(const Message& message, size_t bytes);
  // SIGTERM: finish the batches in flight, start no new ones, leave.
  void RequestStop() { stopping_ = true; }

  bool joined() const { return config_ != nullptr; }
  int64_t heard_ms() const { return link_.heard_ms(); }

 private:
  struct Queued {
    LeaseGrant lease;  // without batches
    LeaseBatch batch;
    int64_t begun_us = 0;   // when it was first taken into flight; 0: not yet
    uint32_t failures = 0;  // of its flights
  };
  // A batch in flight. It makes room for another one as soon as its gradients are pushed.
  struct Flight {
    BatchFlight batch;
    Queued leased;    // to begin anew
    uint64_t number;  // BatchNumber
    uint64_t step;    // StepOf its batch
    int64_t started_us;
    int64_t service_us = 0;      // at servers, of the requests that its stages waited for
    bool pushed = false;         // the last stage is under way
    bool answered = false;       // its first stage is done
    int64_t first_reply_us = 0;  // to the requests of its stage; 0: none yet
  };
  struct Pending {  // a request without reply
    uint64_t flight;
    std::optional<uint64_t> next;  // flight whose EmbedRequest goes with this one's EmbedPush
    uint32_t server;
    int64_t sent_us;
    WirePrecision precision;  // of the request and its reply
    size_t bytes = 0;
    bool repeated = false;
  };
  // Of a server that has answered nothing for twice cluster.request_timeout_ms.
  enum class Silence {
    kNone,
    kUnanswered,    // nor has another server answered for this stage of a batch
    kOthersAnswer,  // other servers have
  };
  struct Link {  // to a server
    LinkMeter meter;
    WirePrecision precision = WirePrecision::kBf16;
    uint64_t windows = 0;          // of the meter that were acted on
    int64_t heard_us = 0;          // last
    int64_t useless_since_us = 0;  // its replies do not fit their requests; 0: they do
    Silence told = Silence::kNone;
  };
  struct Report {  // of a batch that is done, until the scheduler has it
    BatchDone done;
    int64_t sent_ms;
  };

  int64_t NowMs() const { return now_us_ / 1000; }
  void OnJoinReply(const Message& message, const JoinReply& reply);
  void OnPlan(const Plan& plan);
  void OnGrant(LeaseGrant grant);
  void OnServerReply(uint32_t server, Message message, size_t bytes);
  void OnServerError(const Pending& pending, uint32_t server, const ErrorReply& error);
  void OnError(const ErrorReply& error);
  void ForgetWork();
  void BeginAnew();
  uint32_t InFlightLimit() const;
  void Pause(uint32_t pause_ms);
  bool Paused() const { return now_us_ < paused_until_us_; }
  void BeginNewLife();
  void SendReport(BatchDone done);
  void SendAgain();
  void TakeReply(uint64_t flight, uint32_t server, Body reply, int64_t service_us);
  void Proceed(uint64_t flight);
  enum class After { kBeginAgain, kGiveUp };
  void FailFlight(uint64_t flight, const std::string& why, After after = After::kBeginAgain);
  void GiveWaitingBack();
  uint64_t Send(uint32_t to, Body body, WirePrecision precision = WirePrecision::kBf16);
  void SendStage(uint64_t flight, std::optional<uint64_t> next = std::nullopt);
  Body RequestOf(const Pending& pending) const;
  void ChoosePrecision(Link* link) const;
  void Describe(Heartbeat* beat) const;
  std::vector<Silence> SilentServers() const;
  void TellSilentServers(Heartbeat* beat);
  std::optional<uint64_t> StartNext(std::optional<uint64_t> with);
  bool HasRoomFor(uint64_t step) const;
  bool WantsLease() const;
  void Fill();
  void RequestLease();
  Effects Drain();

  SchedulerLink link_;
  std::string name_;
  std::string asked_name_;
  uint32_t cores_;
  LocalData local_;
  int64_t now_us_ = 0;              // of the call
  std::unique_ptr<Config> config_;  // stable address: flights refer to it
  uint64_t train_samples_ = 0;
  Plan plan_;
  bool planned_ = false;
  bool stopping_ = false;
  std::optional<int64_t> lease_asked_ms_;
  int64_t lease_retry_ms_ = 0;             // not before
  std::multimap<uint64_t, Queued> queue_;  // leased, not started, by the batch's number
  std::multimap<int64_t, std::pair<uint64_t, Queued>> refused_;  // begun again from that time on
  uint64_t next_flight_ = 1;
  std::map<uint64_t, Flight> flights_;
  std::map<uint64_t, Pending> pending_;  // by sequence
  std::map<uint64_t, Report> reports_;   // by sequence
  InFlightControl in_flight_{0};
  int64_t longest_batch_us_ = 0;  // since the last heartbeat
  uint32_t in_flight_cap_ = 0;    // by the scheduler; 0: none
  int64_t paused_until_us_ = 0;   // by the scheduler: no batch begins before
  bool told_idle_ = false;        // since it is held
  std::vector<Link> links_;       // [servers]
  Effects effects_;
};

}  // namespace dslide
