// A SchedulerCore with fake servers and workers that answer at once, under a clock of the test's.
#pragma once

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "scheduler/scheduler_core.h"
#include "tests/common/numbered_samples.h"

namespace dslide {

// 50 samples in 13 batches in 5 units; two epochs; two servers.
inline Config RunConfig() {
  Config config;
  config.train.epochs = 2;
  config.train.batch = 4;
  config.train.unit_batches = 3;
  config.train.evaluate_samples = 6;
  config.cluster.servers = 2;
  config.checkpoint.interval_s = 0;
  ResolveConfig(50, 10, &config);
  return config;
}

class FakeCluster {
 public:
  static constexpr uint32_t kSamples = 50, kBatches = 13;

  explicit FakeCluster(Config config = RunConfig(), std::optional<Manifest> resume = {},
                       bool with_test = true)
      : train_(NumberedSamples(kSamples, 10)),
        test_(NumberedSamples(20, 10)),
        core_({config,
               {77},
               &train_,
               with_test ? &test_ : nullptr,
               "/checkpoints",
               {},
               resume,
               resume ? "/checkpoints/" + resume->name : "",
               {}},
              0) {}

  // Sends a message of a member to the core, and lets the fake servers answer what comes back.
  void Send(uint64_t member, Body body) {
    Say({{77}, {member}, ++sequence_, 0, core_.plan_version()}, std::move(body));
  }
  void Say(const Envelope& envelope, Body body) {
    const uint64_t before = core_.counted_batches();
    const BatchId batch = BatchOf(body);
    const std::string peer = "peer-" + std::to_string(envelope.incarnation.value);
    Apply(core_.Handle(peer, {envelope, body}, now));
    if (core_.counted_batches() > before) counted[batch]++;
    AnswerServers();
  }
  void Tick() {
    Apply(core_.Tick(now));
    AnswerServers();
  }
  void Stop() {
    Apply(core_.RequestStop(now));
    AnswerServers();
  }

  void Join(uint64_t member, Role role) {
    dslide::Join join;
    join.role = role;
    Send(member, join);
  }
  // Servers 1 and 2, then workers 11 ... 10 + `workers`.
  void Start(uint64_t workers = 1) {
    Join(1, Role::kServer);
    Join(2, Role::kServer);
    for (uint64_t w = 0; w < workers; ++w) Join(11 + w, Role::kWorker);
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
    const uint64_t before = core_.counted_batches();
    Send(worker, Report(grant, batch));
    if (core_.counted_batches() == before) return true;
    for (const uint32_t id : batch.features.ids) samples[{grant.epoch, id}]++;
    return true;
  }
  void WorkAll(uint64_t worker) {
    while (core_.phase() != SchedulerCore::Phase::kFinished && Work(worker)) {
    }
  }

  // Every batch of both epochs counted once, and every sample was in one batch of each epoch.
  void CheckAllCountedOnce(size_t epochs = 2) const {
    CHECK(counted.size() == epochs * kBatches);
    for (const auto& [batch, times] : counted) CHECK(times == 1);
    CHECK(samples.size() == epochs * kSamples);
    for (const auto& [sample, times] : samples) CHECK(times == 1);
  }

  const Body& LastTo(uint64_t member) {
    const auto& inbox = received["peer-" + std::to_string(member)];
    REQUIRE(!inbox.empty());
    return inbox.back();
  }
  template <typename T>
  size_t CountTo(uint64_t member) {
    size_t count = 0;
    for (const Body& body : received["peer-" + std::to_string(member)]) {
      count += std::holds_alternative<T>(body);
    }
    return count;
  }
  SchedulerCore& core() { return core_; }

  int64_t now = 0;
  bool servers_answer = true;                         // to a plan and a checkpoint
  bool commits_lost = false;                          // CommitSteps do not reach the servers
  uint64_t checkpoints_lost = 0;                      // CheckpointRequests to this server neither
  std::string checkpoint_error;                       // of server 2
  Status manifest_status;                             // of the write of a manifest
  std::map<std::string, std::vector<Body>> received;  // by peer
  std::map<uint64_t, std::deque<std::pair<LeaseGrant, LeaseBatch>>> work;  // leased, by worker
  std::map<uint64_t, uint64_t> committed;                                  // steps, by server
  std::map<std::pair<std::string, uint64_t>, uint64_t> saved;  // by checkpoint and server: steps
  std::vector<Manifest> manifests;
  std::vector<EvaluationResult> evaluations;
  std::vector<uint32_t> epochs_done;
  std::map<BatchId, int> counted;                        // training batches
  std::map<std::pair<uint32_t, uint32_t>, int> samples;  // (epoch, sample) that counted

 private:
  // Of a BatchDone. Not inlined: GCC 12 warns of reading the other bodies where it knows the body.
  [[gnu::noinline]] static BatchId BatchOf(const Body& body) {
    const auto* done = std::get_if<BatchDone>(&body);
    return done != nullptr ? done->batch : BatchId();
  }
  void Apply(SchedulerCore::Effects effects) {
    for (auto& outgoing : effects.send) {
      received[outgoing.to].push_back(outgoing.body);
      if (const auto* grant = std::get_if<LeaseGrant>(&outgoing.body)) {
        auto& leased = work[std::stoull(outgoing.to.substr(5))];  // behind "peer-"
        for (const LeaseBatch& batch : grant->batches) {
          leased.emplace_back(*grant, batch);
          leased.back().first.batches.clear();
        }
      }
      if (outgoing.to == "peer-1") to_servers_.emplace_back(1, outgoing.body);
      if (outgoing.to == "peer-2") to_servers_.emplace_back(2, outgoing.body);
    }
    for (const auto& result : effects.evaluations) evaluations.push_back(result);
    if (effects.epoch_done) epochs_done.push_back(*effects.epoch_done);
    if (effects.manifest) {
      manifests.push_back(*effects.manifest);
      Apply(core_.ManifestWritten(manifest_status, now));
    }
  }
  void AnswerServers() {
    while (servers_answer && !to_servers_.empty()) {
      const auto [server, body] = to_servers_.front();
      to_servers_.pop_front();
      if (const auto* plan = std::get_if<Plan>(&body)) Send(server, Ready{plan->version, 5, 100});
      const auto* request = std::get_if<CheckpointRequest>(&body);
      if (request != nullptr && server != checkpoints_lost) {
        saved.try_emplace({request->name, server}, committed[server]);
        CheckpointDone done;
        done.name = request->name;
        done.shard = "shard-" + std::to_string(server - 1);
        done.rows = 5;
        if (server == 2) done.error = checkpoint_error;
        Send(server, done);
      }
      const auto* commit = std::get_if<CommitSteps>(&body);
      if (commit != nullptr && !commits_lost) {
        committed[server] = std::max(committed[server], commit->committed);
        Send(server, StepsCommitted{commit->committed});
      }
    }
  }

  Dataset train_, test_;
  SchedulerCore core_;
  uint64_t sequence_ = 0;
  std::deque<std::pair<uint64_t, Body>> to_servers_;
};

}  // namespace dslide
