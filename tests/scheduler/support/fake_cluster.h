// A SchedulerCore with fake servers and workers that answer at once, under a clock of the test's.
//
// Members are numbers, which are their incarnations too. After every tick the promise is checked:
// what the ledger counts, every server's slots have.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/log/event.h"
#include "common/run/slot_plan.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/ledger/ledger.h"
#include "tests/scheduler/support/fake_servers.h"
#include "tests/scheduler/support/fake_worker.h"
#include "tests/scheduler/support/promise.h"
#include "tests/support/events.h"

namespace dslide {

// 50 samples in 13 batches in 5 units; two epochs; two servers; slots stay where they are.
Config RunConfig();

class FakeCluster {
 public:
  static constexpr uint32_t kSamples = Promise::kSamples, kBatches = Promise::kBatches;

  explicit FakeCluster(Config config = RunConfig(), std::optional<Manifest> resume = {},
                       bool with_test = true);
  ~FakeCluster();

  // Sends a message of a member to the core, and lets the fake servers answer what comes back.
  void Send(uint64_t member, Body body);
  void Say(const Envelope& envelope, Body body);
  // Bytes that are no message come by a member's connection.
  void Garble(uint64_t member);
  void Tick();
  void Stop();

  void Join(uint64_t member, Role role, const std::string& name = "", uint32_t plan_version = 0);
  // Servers 1 and 2, then workers 11 ... 10 + `workers`.
  void Start(uint64_t workers = 1);

  // A member falls silent. A server that only pauses comes back as it was.
  void Silence(uint64_t member);
  void Return(uint64_t member);
  // Time passes, all but the silent are heard of.
  void Wait(int64_t ms);

  // These samples are not trained, but evaluated. REQUIRES that nobody has joined.
  void HoldOut(std::vector<uint32_t> numbers);
  // The run may choose the values of these keys. REQUIRES that nobody has joined.
  void LeaveOpen(std::vector<std::string> keys);

  // The scheduler dies, and a new life begins from its ledger and the checkpoints. Servers that
  // live join again; workers have to be made anew.
  void Restart();

  // A worker asks for a lease. False if it has to wait; it may get one later, unasked.
  bool Lease(uint64_t worker);
  // A worker does its next batch, leasing one first if it has none. False if there is none.
  bool Work(uint64_t worker);
  void WorkAll(uint64_t worker);
  static BatchDone Report(const LeaseGrant& grant, const LeaseBatch& batch) {
    return FakeWorker::Report(grant, batch);
  }

  void CheckAllCountedOnce(size_t epochs = 2) const { promise.CheckAllCountedOnce(epochs); }
  // What the ledger counts, the slots of all servers of its plan have.
  void CheckPromise() const { servers.CheckHave(ledger.plan.version, promise.counted); }

  // What a worker has leased and not done.
  LeasedBatches& work(uint64_t worker) { return workers_[worker].work; }
  const Body& LastTo(uint64_t member);
  template <typename T>
  size_t CountTo(uint64_t member) {
    size_t count = 0;
    for (const Body& body : received[PeerOf(member)]) count += std::holds_alternative<T>(body);
    return count;
  }
  // The last plan that a member was sent.
  Plan PlanOf(uint64_t member);
  // Whether an event of this kind had all these fields.
  bool Noticed(const EventKind& kind, const std::vector<EventField>& fields = {}) const {
    return Has(notices, kind, fields);
  }
  SchedulerCore& core() { return *core_; }
  RunStatus status() const { return core_->Describe(now); }

  int64_t now = 0;
  bool keyed = false;                             // members have keys, after a Restart()
  bool servers_answer = true;                     // what they are sent is taken and answered
  bool fenced_return = false;                     // as spares, under numbers from 1001 on
  std::map<uint64_t, uint32_t> in_flight;         // as workers say
  uint32_t longest_batch_us = 0;                  // as workers say
  double tail_error = 0;                          // of each batch, as workers say
  uint64_t memory_bytes = 0;                      // of servers that join
  std::string address;                            // of servers that join
  std::map<std::string, Incarnation> answers_at;  // by address: who; 0: nobody. Else who joins
  std::map<uint64_t, std::vector<uint64_t>> silent_servers;  // as workers say
  Status manifest_status;                                    // of the write of a manifest
  // The scheduler dies before it does one thing more: entry, message or manifest.
  std::optional<uint64_t> dies_after;
  bool died = false;

  std::set<uint64_t> alive;
  FakeServers servers;
  Promise promise;
  std::map<std::string, std::vector<Body>> received;  // by peer
  std::vector<Manifest> manifests;
  std::vector<EvaluationResult> evaluations;
  std::vector<uint32_t> epochs_done;
  std::vector<Event> notices;
  LedgerState ledger;
  std::vector<LedgerEntry> entries;

 private:
  struct ToServer {
    uint64_t server;
    uint32_t plan_version;
    Body body;
  };

  static PeerId PeerOf(uint64_t member) { return "peer-" + std::to_string(member); }
  static uint64_t MemberOf(const PeerId& peer) { return std::stoull(peer.substr(5)); }

  void MakeCore();
  bool Dies();
  bool OfThisGeneration(uint32_t version) const;
  Heartbeat BeatOf(uint64_t member) const;
  void GiveReceipts(const Envelope& envelope, BatchDone* done) const;
  void NoteTaken(const Body& body);
  void Apply(SchedulerCore::Effects effects);
  void Deliver(const PeerId& to, const Body& body);
  void AnswerServers();
  void HandleRefusal(uint64_t server, ErrorCode code);

  Config config_;
  bool with_test_;
  Dataset train_, test_;
  std::vector<uint32_t> held_out_;
  std::vector<std::string> open_keys_;
  std::unique_ptr<SchedulerCore> core_;
  std::optional<Manifest> resume_;
  uint64_t sequence_ = 0;
  uint64_t next_life_ = 1001;
  std::deque<ToServer> to_servers_;
  std::map<uint64_t, FakeWorker> workers_;
  std::map<uint32_t, Plan> plans_;  // that the scheduler has sent, by version
  uint8_t lives_ = 0;               // of the scheduler
};

}  // namespace dslide
