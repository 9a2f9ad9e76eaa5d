// A SchedulerCore with fake servers and workers that answer at once, under a clock of the test's.
//
// Members are numbers, which are their incarnations too. Servers remember which batches their slots
// have taken, and checkpoints hold that, so that the promise can be checked: what the ledger
// counts, every server's slots have. Slots that move take along what they have.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/ledger/ledger.h"
#include "tests/support/numbered_samples.h"

namespace dslide {

// 50 samples in 13 batches in 5 units; two epochs; two servers; slots stay where they are.
inline Config RunConfig() {
  Config config;
  config.train.epochs = 2;
  config.train.batch = 4;
  config.train.unit_batches = 3;
  config.train.evaluate_samples = 6;
  config.cluster.servers = 2;
  config.cluster.slots = 4;
  config.cluster.balance = Balance::kOff;
  config.checkpoint.interval_s = 0;
  ResolveConfig(50, 10, &config);
  return config;
}

// What a server's slots have taken.
using SlotBatches = std::map<size_t, std::set<BatchId>>;

struct FakeServer {
  bool alive = true;
  std::string name;        // as the scheduler called it
  uint32_t loaded = 0;     // version of the plan whose slots are loaded, 0: none
  uint64_t committed = 0;  // steps
  SlotBatches slots;       // of that plan
  SlotBatches left;        // slots that went to others with a plan of this generation
  Plan plan;               // that is loaded
  std::string saved;       // its last checkpoint of this plan
  bool fenced = false;     // was told to begin a new life
};

class FakeCluster {
 public:
  static constexpr uint32_t kSamples = 50, kBatches = 13;

  explicit FakeCluster(Config config = RunConfig(), std::optional<Manifest> resume = {},
                       bool with_test = true)
      : config_(std::move(config)),
        with_test_(with_test),
        train_(NumberedSamples(kSamples, 10)),
        test_(NumberedSamples(20, 10)) {
    if (resume) manifests_before_.push_back(*resume);
    MakeCore();
  }

  // Sends a message of a member to the core, and lets the fake servers answer what comes back.
  void Send(uint64_t member, Body body) {
    Say({{77}, {member}, ++sequence_, 0, core_->plan_version()}, std::move(body));
  }
  void Say(const Envelope& envelope, Body body) {
    if (OfThisGeneration(envelope.plan_version)) NoteTaken(body);
    if (std::holds_alternative<Leave>(body)) alive.erase(envelope.incarnation.value);
    if (!died) Apply(core_->Handle(PeerOf(envelope.incarnation.value), {envelope, body}, now));
    AnswerServers();
  }
  void Tick() {
    if (!died) Apply(core_->Tick(now));
    AnswerServers();
    CheckPromise();
  }
  void Stop() {
    Apply(core_->RequestStop(now));
    AnswerServers();
  }

  void Join(uint64_t member, Role role, const std::string& name = "", uint32_t plan_version = 0) {
    dslide::Join join;
    join.role = role;
    join.name = name;
    join.cores = 1;
    if (role == Role::kServer) join.memory_bytes = memory_bytes;
    join.plan_version = plan_version;
    alive.insert(member);
    if (role == Role::kServer) servers.try_emplace(member);
    Send(member, join);
  }
  // Servers 1 and 2, then workers 11 ... 10 + `workers`.
  void Start(uint64_t workers = 1) {
    Join(1, Role::kServer);
    Join(2, Role::kServer);
    for (uint64_t w = 0; w < workers; ++w) Join(11 + w, Role::kWorker);
  }

  // A member falls silent. A server that only pauses comes back as it was.
  void Silence(uint64_t member) {
    alive.erase(member);
    if (servers.contains(member)) servers.at(member).alive = false;
  }
  void Return(uint64_t member) {
    alive.insert(member);
    if (servers.contains(member)) servers.at(member).alive = true;
    Send(member, Heartbeat{});
  }
  // Time passes, all but the silent are heard of.
  void Wait(int64_t ms) {
    for (const int64_t end = now + ms; now < end;) {
      now = std::min(end, now + 1000);
      const std::set<uint64_t> heard = alive;
      for (const uint64_t member : heard) {
        if (core_->phase() != SchedulerCore::Phase::kFinished) Send(member, BeatOf(member));
      }
      Tick();
    }
  }

  // The scheduler dies, and a new life begins from its ledger and the checkpoints. Servers that
  // live join again; workers have to be made anew.
  void Restart() {
    died = false;
    dies_after.reset();
    work.clear();
    for (auto at = alive.begin(); at != alive.end();) {
      at = servers.contains(*at) ? std::next(at) : alive.erase(at);
    }
    MakeCore();
    const std::set<uint64_t> heard = alive;
    for (const uint64_t member : heard) Send(member, Heartbeat{});
  }

  // A worker asks for a lease. False if it has to wait; it may get one later, unasked.
  bool Lease(uint64_t worker) {
    const size_t before = work[worker].size();
    Send(worker, LeaseRequest{});
    return work[worker].size() > before;
  }
  static BatchDone Report(const LeaseGrant& grant, const LeaseBatch& batch) {
    BatchDone done;
    done.lease = grant.lease;
    done.batch = {grant.epoch, grant.unit, batch.index};
    done.samples = batch.features.rows();
    done.loss_sum = done.samples;
    for (uint32_t i = 0; grant.kind == LeaseKind::kEvaluate && i < done.samples; ++i) {
      done.predictions.ids.push_back(batch.labels.Ids(i)[0]);  // all are right
      done.predictions.scores.push_back(1.0f);
      done.predictions.offsets.push_back(i + 1);
    }
    return done;
  }
  // A worker does its next batch, leasing one first if it has none. False if there is none.
  bool Work(uint64_t worker) {
    if (work[worker].empty() && !Lease(worker)) return false;
    const auto [grant, batch] = work[worker].front();
    work[worker].pop_front();
    Send(worker, Report(grant, batch));
    return true;
  }
  void WorkAll(uint64_t worker) {
    while (core_->phase() != SchedulerCore::Phase::kFinished && Work(worker)) {
    }
  }

  // Every batch of the epochs counted once, and every sample was in one batch of each epoch.
  void CheckAllCountedOnce(size_t epochs = 2) const {
    CHECK(counted.size() == epochs * kBatches);
    std::map<std::pair<uint32_t, uint32_t>, int> samples;  // (epoch, sample)
    for (const auto& [batch, times] : counted) {
      CHECK(times == 1);
      const auto found = content.find(batch);
      REQUIRE(found != content.end());
      for (const uint32_t id : found->second) samples[{batch.epoch, id}]++;
    }
    CHECK(samples.size() == epochs * kSamples);
    for (const auto& [sample, times] : samples) CHECK(times == 1);
  }
  // What the ledger counts, the slots of all servers of its plan have.
  void CheckPromise() const {
    for (const auto& [id, server] : servers) {
      if (server.loaded == 0 || server.loaded != ledger.plan.version) continue;
      for (const auto& [slot, taken] : server.slots) {
        for (const auto& [batch, times] : counted) REQUIRE(taken.contains(batch));
      }
    }
  }

  const Body& LastTo(uint64_t member) {
    const auto& inbox = received[PeerOf(member)];
    REQUIRE(!inbox.empty());
    return inbox.back();
  }
  template <typename T>
  size_t CountTo(uint64_t member) {
    size_t count = 0;
    for (const Body& body : received[PeerOf(member)]) count += std::holds_alternative<T>(body);
    return count;
  }
  // The last plan that a member was sent.
  Plan PlanOf(uint64_t member) {
    Plan last;
    for (const Body& body : received[PeerOf(member)]) {
      if (const auto* plan = std::get_if<Plan>(&body)) last = *plan;
    }
    return last;
  }
  bool Noticed(const std::string& part) const {
    return std::any_of(notices.begin(), notices.end(), [&](const std::string& notice) {
      return notice.find(part) != std::string::npos;
    });
  }
  SchedulerCore& core() { return *core_; }

  int64_t now = 0;
  bool servers_answer = true;           // what they are sent is taken and answered
  bool fenced_return = false;           // as spares, under numbers from 1001 on
  bool moves_answered = true;           // MoveSlots
  std::vector<double> slot_work;        // [V] of a batch; not empty: servers report loads
  std::map<uint64_t, double> capacity;  // of servers; 1000 if it is not said
  uint64_t slot_bytes = 1000;
  std::map<uint64_t, uint32_t> in_flight;  // as workers say
  uint32_t longest_batch_us = 0;           // as workers say
  uint64_t memory_bytes = 0;               // of servers that join
  bool commits_lost = false;               // CommitSteps do not reach the servers
  uint64_t checkpoints_lost = 0;           // CheckpointRequests to this server neither
  uint64_t ready_lost = 0;                 // what this server says when it has taken a plan up
  std::string checkpoint_error;            // of server 2
  Status manifest_status;                  // of the write of a manifest
  // The scheduler dies before it does one thing more: entry, message or manifest.
  std::optional<uint64_t> dies_after;
  bool died = false;

  std::set<uint64_t> alive;
  std::map<uint64_t, FakeServer> servers;
  std::map<std::string, std::vector<Body>> received;                       // by peer
  std::map<uint64_t, std::deque<std::pair<LeaseGrant, LeaseBatch>>> work;  // leased, by worker
  std::map<std::pair<std::string, uint64_t>, uint64_t> saved;  // by checkpoint and server: steps
  std::vector<Manifest> manifests;
  std::vector<EvaluationResult> evaluations;
  std::vector<uint32_t> epochs_done;
  std::vector<std::string> notices;
  LedgerState ledger;
  std::vector<LedgerEntry> entries;
  std::map<BatchId, int> counted;                    // training batches that count
  std::map<BatchId, std::vector<uint32_t>> content;  // samples of training batches
  std::set<std::pair<uint64_t, BatchId>> again;      // leased to a worker after somebody else

 private:
  static PeerId PeerOf(uint64_t member) { return "peer-" + std::to_string(member); }
  static uint64_t MemberOf(const PeerId& peer) { return std::stoull(peer.substr(5)); }

  void MakeCore() {
    RunInputs inputs{config_, {77}, &train_, with_test_ ? &test_ : nullptr, "/checkpoints"};
    inputs.ledger = ledger;
    std::vector<Manifest> complete = manifests_before_;
    complete.insert(complete.end(), manifests.begin(), manifests.end());
    if (!complete.empty()) {
      inputs.checkpoint = complete.back();
      inputs.checkpoint_path = "/checkpoints/" + complete.back().name;
    }
    for (const Manifest& manifest : complete) inputs.checkpoints.push_back(manifest.name);
    core_ = std::make_unique<SchedulerCore>(std::move(inputs), now);
  }
  bool Dies() {
    if (dies_after && (*dies_after)-- == 0) died = true;
    return died;
  }
  bool OfThisGeneration(uint32_t version) const {
    return version <= core_->plan_version() && version >= GenerationOf(core_->plan());
  }
  Heartbeat BeatOf(uint64_t member) const {
    Heartbeat beat;
    const auto server = servers.find(member);
    if (server == servers.end()) {
      const auto has = in_flight.find(member);
      beat.batches_in_flight = has == in_flight.end() ? 0 : has->second;
      beat.longest_batch_us = longest_batch_us;
    }
    if (server == servers.end() || slot_work.empty()) return beat;
    constexpr uint32_t kBeatBatches = 10;
    const auto given = capacity.find(member);
    LoadReport load;
    load.interval_ms = 1000;
    load.batches = kBeatBatches;
    double all_work = 0;
    for (const auto& [slot, taken] : server->second.slots) {
      load.slots.push_back(static_cast<uint32_t>(slot));
      load.work.push_back(static_cast<float>(kBeatBatches * slot_work[slot]));
      all_work += kBeatBatches * slot_work[slot];
    }
    load.executor.resize(load.slots.size());
    for (auto* figures : {&load.retrieved, &load.used, &load.updated}) {
      figures->resize(load.slots.size());
    }
    load.service_us.resize(load.slots.size());
    load.bytes.assign(load.slots.size(), slot_bytes);
    load.busy = {static_cast<float>(all_work / (given == capacity.end() ? 1000 : given->second))};
    beat.load = load;
    beat.memory_used_bytes = load.slots.size() * slot_bytes;
    return beat;
  }
  // Servers have taken a batch before its worker reports it.
  [[gnu::noinline]] void NoteTaken(const Body& body) {
    const auto* done = std::get_if<BatchDone>(&body);
    if (done == nullptr || done->predictions.offsets.size() > 1) return;
    for (auto& [id, server] : servers) {
      if (server.loaded == 0 || GenerationOf(server.plan) != GenerationOf(core_->plan())) continue;
      for (SlotBatches* slots : {&server.slots, &server.left}) {
        for (auto& [slot, taken] : *slots) taken.insert(done->batch);
      }
    }
  }

  void Apply(SchedulerCore::Effects effects) {
    for (const LedgerEntry& entry : effects.ledger) {
      if (Dies()) return;
      ledger.Apply(entry);
      entries.push_back(entry);
      NoteCounted(entry);
    }
    for (auto& outgoing : effects.send) {
      if (Dies()) return;
      Deliver(outgoing.to, outgoing.body);
    }
    notices.insert(notices.end(), effects.notices.begin(), effects.notices.end());
    for (const auto& result : effects.evaluations) evaluations.push_back(result);
    if (effects.epoch_done) epochs_done.push_back(*effects.epoch_done);
    if (!effects.manifest || Dies()) return;
    CheckManifest(*effects.manifest);
    if (manifest_status.ok()) manifests.push_back(*effects.manifest);
    if (!Dies()) Apply(core_->ManifestWritten(manifest_status, now));
  }
  [[gnu::noinline]] void NoteCounted(const LedgerEntry& entry) {
    if (const auto* batch = std::get_if<LedgerCounted>(&entry)) counted[batch->batch]++;
    const auto* restored = std::get_if<LedgerRestored>(&entry);
    if (restored == nullptr) return;
    std::erase_if(counted, [&](const auto& c) {
      const BatchId& id = c.first;
      const bool done =
          std::any_of(restored->done.begin(), restored->done.end(),
                      [&](const DoneBatch& d) { return d.unit == id.unit && d.index == id.index; });
      return id.epoch > restored->epoch || (id.epoch == restored->epoch && !done);
    });
  }
  // Every shard has taken what the manifest says is done.
  void CheckManifest(const Manifest& manifest) {
    for (const ManifestShard& shard : manifest.shards) {
      for (const auto& [slot, taken] : shards_.at({manifest.name, shard.directory})) {
        for (const BatchId& batch : BatchesOf(manifest)) REQUIRE(taken.contains(batch));
      }
    }
  }
  void Deliver(const PeerId& to, const Body& body) {
    received[to].push_back(body);
    const uint64_t member = MemberOf(to);
    if (const auto* grant = std::get_if<LeaseGrant>(&body)) {
      for (const LeaseBatch& batch : grant->batches) {
        work[member].emplace_back(*grant, batch);
        work[member].back().first.batches.clear();
        if (grant->kind != LeaseKind::kTrain) continue;
        const BatchId id{grant->epoch, grant->unit, batch.index};
        if (content.contains(id)) again.insert({member, id});
        content[id] = batch.features.ids;
      }
    }
    if (const auto* plan = std::get_if<Plan>(&body); plan != nullptr) {
      if (plans_[member] != GenerationOf(*plan)) work[member].clear();
      plans_[member] = GenerationOf(*plan);
    }
    if (servers.contains(member)) to_servers_.push_back({member, core_->plan_version(), body});
  }

  struct ToServer {
    uint64_t server;
    uint32_t plan_version;
    Body body;
  };
  void AnswerServers() {
    while (servers_answer && !to_servers_.empty()) {
      const ToServer next = to_servers_.front();
      to_servers_.pop_front();
      if (servers.at(next.server).alive) Answer(next);
    }
  }
  void Answer(const ToServer& message) {
    FakeServer& server = servers.at(message.server);
    const bool current = server.loaded != 0 && message.plan_version == server.loaded;
    if (const auto* reply = std::get_if<JoinReply>(&message.body)) server.name = reply->name;
    if (const auto* plan = std::get_if<Plan>(&message.body)) TakePlan(message.server, *plan);
    if (const auto* move = std::get_if<MoveSlots>(&message.body)) {
      if (moves_answered && !move->slots.empty()) {
        Send(message.server, MoveReady{move->move, 100, 0});
      }
    }
    if (const auto* commit = std::get_if<CommitSteps>(&message.body)) {
      if (!current || commits_lost) return;
      server.committed = std::max(server.committed, commit->committed);
      Send(message.server, StepsCommitted{server.committed});
    }
    if (const auto* request = std::get_if<CheckpointRequest>(&message.body)) {
      if (current && message.server != checkpoints_lost) Save(message.server, *request);
    }
    if (const auto* error = std::get_if<ErrorReply>(&message.body)) {
      if (error->code == ErrorCode::kWrongRun) {
        Join(message.server, Role::kServer, server.name, server.loaded);
      } else if (error->code == ErrorCode::kFenced) {
        const std::string name = server.name;
        server = FakeServer();
        server.alive = false;
        server.name = name;
        server.fenced = true;
        alive.erase(message.server);
        if (fenced_return) Join(next_life_++, Role::kServer, server.name);
      }
    }
  }
  static std::set<size_t> SlotsFor(uint64_t id, const Plan& plan) {
    std::set<size_t> slots;
    for (size_t slot = 0; slot < plan.slot_owner.size(); ++slot) {
      if (plan.servers[plan.slot_owner[slot]].incarnation.value == id) slots.insert(slot);
    }
    return slots;
  }
  void TakePlan(uint64_t id, const Plan& plan) {
    FakeServer& server = servers.at(id);
    const bool newer = plan.version > server.loaded;
    if (newer && server.loaded != 0 && GenerationOf(plan) == GenerationOf(server.plan)) {
      if (!SwitchPlan(id, plan)) return;
    } else if (newer) {
      Load(id, plan);
    }
    const bool seated = std::any_of(plan.servers.begin(), plan.servers.end(),
                                    [&](const auto& s) { return s.incarnation.value == id; });
    if (seated && id != ready_lost)
      Send(id, Ready{server.loaded, 5, 100, newer ? moved_bytes_ : 0, 7000});
  }
  void Load(uint64_t id, const Plan& plan) {
    FakeServer& server = servers.at(id);
    server.plan = plan;
    server.loaded = plan.version;
    server.saved.clear();
    server.slots.clear();
    server.left.clear();
    server.committed = 0;
    for (const size_t slot : SlotsFor(id, plan)) server.slots[slot];
    Restore(plan.restore.substr(plan.restore.rfind('/') + 1), &server.slots);
  }
  // What the server of this generation that lives and has the slot has taken; null: there is none.
  const std::set<BatchId>* TakenOf(size_t slot, const Plan& plan) const {
    for (const auto& [id, server] : servers) {
      if (!server.alive || server.loaded == 0) continue;
      if (GenerationOf(server.plan) != GenerationOf(plan)) continue;
      for (const SlotBatches* slots : {&server.slots, &server.left}) {
        if (slots->contains(slot)) return &slots->at(slot);
      }
    }
    return nullptr;
  }
  // False: a slot cannot be had, its old owner is gone.
  bool SwitchPlan(uint64_t id, const Plan& plan) {
    FakeServer& server = servers.at(id);
    SlotBatches slots;
    uint64_t moved = 0;
    for (const size_t slot : SlotsFor(id, plan)) {
      const std::set<BatchId>* taken = TakenOf(slot, plan);
      if (taken == nullptr) return false;
      slots[slot] = *taken;
      moved += !server.slots.contains(slot);
    }
    for (const auto& [slot, taken] : server.slots) {
      if (!slots.contains(slot)) server.left[slot] = taken;
    }
    for (const auto& [slot, taken] : slots) server.left.erase(slot);
    server.slots = std::move(slots);
    server.plan = plan;
    server.loaded = plan.version;
    server.saved.clear();
    moved_bytes_ = moved * slot_bytes;
    return true;
  }
  void Restore(const std::string& checkpoint, SlotBatches* slots) {
    for (const auto& [shard, saved_slots] : shards_) {
      for (auto& [slot, taken] : *slots) {
        if (shard.first == checkpoint && saved_slots.contains(slot)) taken = saved_slots.at(slot);
      }
    }
    for (const Manifest& manifest : manifests_before_) {
      if (manifest.name != checkpoint) continue;
      for (auto& [slot, taken] : *slots) taken = BatchesOf(manifest);
    }
  }
  // All batches that a manifest counts.
  std::set<BatchId> BatchesOf(const Manifest& manifest) const {
    std::set<BatchId> batches;
    const uint32_t unit = config_.train.unit_batches;
    for (uint32_t epoch = 0; epoch < manifest.epoch; ++epoch) {
      for (uint32_t n = 0; n < kBatches; ++n) batches.insert({epoch, n / unit, n % unit});
    }
    for (const DoneBatch& done : manifest.done) {
      batches.insert({manifest.epoch, done.unit, done.index});
    }
    return batches;
  }
  void Save(uint64_t id, const CheckpointRequest& request) {
    FakeServer& server = servers.at(id);
    size_t index = 0;
    while (server.plan.servers[index].incarnation.value != id) ++index;
    CheckpointDone done;
    done.name = request.name;
    done.shard = "shard-" + std::to_string(server.loaded) + "-" + std::to_string(index);
    done.rows = 5;
    if (IsSynchronous(config_.train) && server.saved != request.name &&
        request.committed != server.committed) {
      done.error = "another step";
      done.retry = true;
    } else if (id == 2 && !checkpoint_error.empty()) {
      done.error = checkpoint_error;
    } else if (server.saved != request.name) {
      server.saved = request.name;
      saved[{request.name, id}] = server.committed;
      shards_[{request.name, done.shard}] = server.slots;
    }
    Send(id, done);
  }

  Config config_;
  bool with_test_;
  Dataset train_, test_;
  std::unique_ptr<SchedulerCore> core_;
  std::vector<Manifest> manifests_before_;
  uint64_t sequence_ = 0;
  uint64_t next_life_ = 1001;
  uint64_t moved_bytes_ = 0;  // of the last plan switch
  std::deque<ToServer> to_servers_;
  std::map<uint64_t, uint32_t> plans_;  // generations that workers have
  // By checkpoint and shard: what its slots have taken.
  std::map<std::pair<std::string, std::string>, SlotBatches> shards_;
};

}  // namespace dslide
