// A run with thousands of members: the real SchedulerCore, with its planner and leases, and models
// of servers and workers, in one thread under virtual time.
//
// A model does what the scheduler sees of its member: it joins, sends heartbeats and loads, loads
// slots, copies those that move, saves its shard, trains leased batches in its time, falls silent,
// leaves and comes back. A batch ends only while every server of its plan is there. What servers
// compute is not modelled; tests/simulation has the roles' real cores, for few members.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "common/log/event.h"
#include "scheduler/core/scheduler_core.h"
#include "tools/bench/swarm/weather.h"

namespace dslide {

struct SwarmSettings {
  uint32_t servers = 1000;
  uint32_t workers = 10000;  // machines; Weather::Share() of them are there
  double batch_s = 2;        // of a worker, the mean over workers; they differ by up to 8 times
  uint32_t in_flight = 2;    // batches of a worker
  uint32_t samples = 8'000'000;
  uint32_t heartbeat_ms = 5000;
  uint32_t checkpoint_s = 300;
  uint64_t seed = 1;
  WeatherSettings weather;
};

// Sums since the run began.
struct SwarmTotals {
  uint64_t events = 0;
  uint64_t messages_in = 0, messages_out = 0, bytes_out = 0;  // of the scheduler
  uint64_t batches = 0;     // that the ledger counts, without those that were taken back
  uint64_t taken_back = 0;  // by returns to a checkpoint
  double capacity = 0;      // batches that the workers present could have trained
  uint64_t left = 0, switched_off = 0, server_failures = 0, site_failures = 0;
  uint32_t plans = 0, restores = 0, checkpoints = 0, refused = 0;
  double core_s = 0;      // CPU of the core and of encoding
  double longest_ms = 0;  // one call of the core
  double cpu_s = 0;       // of all
};

class Swarm {
 public:
  explicit Swarm(const SwarmSettings& settings);
  ~Swarm();

  void RunUntil(int64_t end_ms);

  int64_t now_ms() const { return now_ms_; }
  const SwarmTotals& totals() const { return totals_; }
  size_t workers() const { return core_->roster().Count(Role::kWorker); }
  size_t servers() const { return core_->roster().Count(Role::kServer); }
  RunPhase phase() const { return core_->phase(); }
  const std::vector<dslide::Event>& notices() const { return notices_; }

 private:
  struct Node;
  struct Event {
    int64_t at_ms;
    uint64_t number;  // events of one time happen in the order in which they were made
    std::function<void()> happen;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at_ms != b.at_ms ? a.at_ms > b.at_ms : a.number > b.number;
    }
  };

  void At(int64_t at_ms, std::function<void()> happen);
  // At a time from now on, if the node still lives this life and its site is heard then.
  void Later(Node* node, int64_t after_ms, std::function<void()> happen);
  int64_t DelayMs();

  // The scheduler.
  template <typename Call>
  void CallCore(const Call& call);
  void Tick();
  void Apply(SchedulerEffects effects);
  void Record(const std::vector<LedgerEntry>& entries);
  void Deliver(const action::Send& out);
  void OnProbe(const Admission::Probe& probe);

  // Members.
  void Send(Node* node, Body body);
  void AskToJoin(Node* node);
  void ComeUp(Node* node);
  void GoDown(Node* node, bool goodbye);
  void Beat(Node* node);
  void SetSiteUp(uint32_t site, bool up);
  void Receive(Node* node, const Body& body);
  void ReceivePlan(Node* node, const std::shared_ptr<const Plan>& plan);
  void LoadPlan(Node* node);
  void ReceiveAsServer(Node* node, const Body& body);
  void ReceiveAsWorker(Node* node, const Body& body);
  void BeginBatches(Node* node);
  void EndBatch(Node* node, uint64_t lease, const BatchId& batch, uint32_t samples);
  // All servers of the plan are there and have loaded it, or a later one of its generation.
  bool Whole(const Plan& plan);
  LoadReport LoadOf(const Node& server) const;

  const SwarmSettings settings_;
  Weather weather_;
  Config config_;
  Dataset data_;
  std::unique_ptr<SchedulerCore> core_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<uint64_t, Node*> by_incarnation_;
  std::vector<bool> site_up_;
  std::map<uint32_t, std::shared_ptr<const Plan>> plans_;  // by version
  std::pair<uint32_t, bool> whole_;  // of the plan of this version; 0: not known
  std::priority_queue<Event, std::vector<Event>, struct Swarm::Later> events_;
  std::vector<dslide::Event> notices_;
  int64_t now_ms_ = 0;
  uint64_t next_event_ = 0, next_life_ = 1;
  SwarmTotals totals_;
};

}  // namespace dslide
