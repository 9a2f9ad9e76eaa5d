#include "tools/bench/swarm/swarm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>
#include <variant>

#include "common/base/process.h"
#include "common/data/checksum.h"
#include "common/run/lease_proofs.h"
#include "common/run/slot_plan.h"
#include "common/wire/messages.h"

namespace dslide {
namespace {

constexpr int64_t kTickMs = 100;    // of the scheduler's shell
constexpr int64_t kAgainMs = 1000;  // until a batch whose servers are not all there is tried again
constexpr uint32_t kLabels = 1'000'000, kFeatures = 100'000;
constexpr uint32_t kBatch = 4;  // samples: none is computed with, and they take memory
constexpr uint64_t kSlotBytes = 20 << 20;
constexpr double kLoadBytesPerMs = 200e3;

// Samples of one feature and one label.
Dataset SmallSamples(uint32_t count) {
  Dataset data(kFeatures, kLabels);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t feature = i % kFeatures, label = i % kLabels;
    const float value = 1;
    data.Add({{&label, 1}, {&feature, 1}, {&value, 1}});
  }
  return data;
}

Config ConfigOf(const SwarmSettings& settings) {
  Config config;
  config.train.epochs = 1000;
  config.train.batch = kBatch;
  config.cluster.servers = settings.servers;
  config.cluster.most_workers = std::max(1u, settings.workers);
  config.cluster.slots = 4 * settings.servers;
  config.cluster.heartbeat_ms = settings.heartbeat_ms;
  config.checkpoint.interval_s = settings.checkpoint_s;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

}  // namespace

struct Swarm::Node {
  struct Leased {
    uint64_t lease = 0;
    BatchId batch;
    uint32_t samples = 0;
  };
  struct Plans {
    std::shared_ptr<const Plan> known, loaded;
  };

  Role role = Role::kWorker;
  uint32_t site = 0;
  bool up = false;
  bool joined = false;  // this life
  uint64_t life = 0;    // its incarnation
  PeerId peer;
  std::string name;
  Plans plans;
  uint64_t sequence = 0;
  // Workers:
  double batch_ms = 0;
  std::deque<Leased> leased;
  uint32_t running = 0;
  bool asked = false;
  int64_t paused_until_ms = 0;
  // Servers:
  double speed = 1;
  std::vector<uint32_t> slots;  // of plans.loaded
};

Swarm::Swarm(const SwarmSettings& settings)
    : settings_(settings),
      weather_(settings.weather, settings.seed),
      config_(ConfigOf(settings)),
      data_(SmallSamples(settings.samples)),
      site_up_(settings.weather.sites, true),
      whole_{0, false} {
  RunInputs inputs{config_, {77}, &data_, nullptr, "/checkpoints", Checksum(data_)};
  inputs.lease_keys.receipts[0] = 1;
  core_ = std::make_unique<SchedulerCore>(std::move(inputs), now_ms_);
  const uint32_t machines = settings.servers + settings.workers;
  for (uint32_t i = 0; i < machines; ++i) {
    Node& node = *nodes_.emplace_back(std::make_unique<Node>());
    node.role = i < settings.servers ? Role::kServer : Role::kWorker;
    node.site = i % settings.weather.sites;
    node.speed = 0.5 + weather_.Uniform();
    node.batch_ms = 1000 * settings.batch_s * std::exp2(3 * weather_.Uniform() - 1.5);
    const bool there =
        node.role == Role::kServer || weather_.Uniform() < weather_.Share(node.site, 0);
    const int64_t from_ms = there ? static_cast<int64_t>(10'000 * weather_.Uniform())
                                  : weather_.AbsenceMs(node.site, 0);
    At(from_ms, [this, &node] { ComeUp(&node); });
  }
  for (uint32_t site = 0; site < settings.weather.sites; ++site) {
    At(weather_.SiteFailureMs(), [this, site] { SetSiteUp(site, false); });
  }
  At(0, [this] { Tick(); });
}

Swarm::~Swarm() = default;

void Swarm::RunUntil(int64_t end_ms) {
  const double began_s = ThreadCpuSeconds();
  while (!events_.empty() && events_.top().at_ms <= end_ms) {
    const Event event = events_.top();
    events_.pop();
    now_ms_ = event.at_ms;
    totals_.events++;
    event.happen();
  }
  now_ms_ = end_ms;
  totals_.cpu_s += ThreadCpuSeconds() - began_s;
}

void Swarm::At(int64_t at_ms, std::function<void()> happen) {
  events_.push({at_ms, next_event_++, std::move(happen)});
}

void Swarm::Later(Node* node, int64_t after_ms, std::function<void()> happen) {
  At(now_ms_ + after_ms, [this, node, life = node->life, happen = std::move(happen)] {
    if (node->up && node->life == life && site_up_[node->site]) happen();
  });
}

int64_t Swarm::DelayMs() { return 10 + static_cast<int64_t>(90 * weather_.Uniform()); }

template <typename Call>
void Swarm::CallCore(const Call& call) {
  const double began_s = ThreadCpuSeconds();
  SchedulerEffects effects = call();
  const double took_s = ThreadCpuSeconds() - began_s;
  totals_.core_s += took_s;
  totals_.longest_ms = std::max(totals_.longest_ms, 1000 * took_s);
  Apply(std::move(effects));
}

void Swarm::Tick() {
  CallCore([&] { return core_->Tick(now_ms_); });
  for (const auto& node : nodes_) {
    if (node->role != Role::kWorker || !node->joined || !site_up_[node->site]) continue;
    totals_.capacity += kTickMs / node->batch_ms * settings_.in_flight;
  }
  At(now_ms_ + kTickMs, [this] { Tick(); });
}

void Swarm::Apply(SchedulerEffects effects) {
  Record(effects.ledger);
  const double began_s = ThreadCpuSeconds();
  for (const SchedulerAction& one : effects.actions) {
    const auto* send = std::get_if<action::Send>(&one);
    if (send == nullptr) continue;
    Message message;
    message.body = *send->body;
    totals_.messages_out++;
    totals_.bytes_out += Encode(message, WirePrecision::kFp32).size();
  }
  totals_.core_s += ThreadCpuSeconds() - began_s;
  for (const SchedulerAction& one : effects.actions) {
    if (const auto* send = std::get_if<action::Send>(&one)) {
      Deliver(*send);
    } else if (const auto* log = std::get_if<action::Log>(&one)) {
      notices_.push_back(log->event);
    } else if (const auto* probe = std::get_if<action::Probe>(&one)) {
      OnProbe(*probe);
    } else if (std::holds_alternative<action::WriteManifest>(one)) {
      At(now_ms_ + DelayMs(), [this] { CallCore([&] { return core_->OnManifest({}, now_ms_); }); });
    }
  }
}

void Swarm::Record(const std::vector<LedgerEntry>& entries) {
  for (const LedgerEntry& entry : entries) {
    if (std::holds_alternative<LedgerCounted>(entry)) totals_.batches++;
    if (std::holds_alternative<LedgerPlanned>(entry)) totals_.plans++;
    if (std::holds_alternative<LedgerCheckpointed>(entry)) totals_.checkpoints++;
    if (const auto* restored = std::get_if<LedgerRestored>(&entry)) {
      totals_.restores++;
      totals_.taken_back += totals_.batches - restored->batches;
      totals_.batches = restored->batches;
    }
  }
}

void Swarm::OnProbe(const Admission::Probe& probe) {
  const auto found = by_incarnation_.find(probe.server.value);
  if (found == by_incarnation_.end()) return;
  Later(found->second, 2 * DelayMs(), [this, server = probe.server] {
    CallCore([&] { return core_->OnProbe(server, server, now_ms_); });
  });
}

void Swarm::Deliver(const action::Send& out) {
  const auto found = by_incarnation_.find(std::stoull(out.to));
  if (found == by_incarnation_.end()) return;
  Node* const node = found->second;
  if (const auto* plan = std::get_if<Plan>(&*out.body)) {
    auto& shared = plans_[plan->version];
    if (!shared) shared = std::make_shared<const Plan>(*plan);
    return Later(node, DelayMs(), [this, node, shared] { ReceivePlan(node, shared); });
  }
  Later(node, DelayMs(), [this, node, body = *out.body] { Receive(node, body); });
}

void Swarm::Send(Node* node, Body body) {
  Later(node, DelayMs(),
        [this, node, sequence = ++node->sequence, body = std::move(body),
         version = node->plans.known ? node->plans.known->version : 0] {
          totals_.messages_in++;
          const Message message{{{77}, {node->life}, sequence, 0, version}, body};
          CallCore([&] { return core_->Handle(node->peer, message, now_ms_); });
        });
}

void Swarm::AskToJoin(Node* node) {
  Join join;
  join.role = node->role;
  join.cores = 2;
  join.name = node->name;
  if (node->role == Role::kServer) {
    join.address = "tcp://server:" + node->peer;
    join.memory_bytes = uint64_t{8} << 30;
  }
  Send(node, join);
}

void Swarm::ComeUp(Node* node) {
  by_incarnation_.erase(node->life);
  node->up = true;
  node->joined = false;
  node->life = next_life_++;
  node->peer = std::to_string(node->life);
  by_incarnation_[node->life] = node;
  node->plans = {};
  node->leased.clear();
  node->slots.clear();
  node->running = 0;
  node->asked = false;
  node->paused_until_ms = 0;
  whole_.first = 0;
  AskToJoin(node);
  const bool serves = node->role == Role::kServer;
  const int64_t lasts_ms = serves ? weather_.ServerFailureMs() : weather_.SessionMs();
  const bool goodbye = !serves && weather_.SaysGoodbye();
  At(now_ms_ + lasts_ms, [this, node, goodbye, life = node->life] {
    if (node->life == life) GoDown(node, goodbye);
  });
  // The first one comes after the Join: messages of a connection do not overtake one another.
  const double first_ms = 200 + settings_.heartbeat_ms * weather_.Uniform();
  Later(node, static_cast<int64_t>(first_ms), [this, node] { Beat(node); });
}

void Swarm::GoDown(Node* node, bool goodbye) {
  if (goodbye && site_up_[node->site]) {
    totals_.messages_in++;
    const Message message{{{77}, {node->life}, ++node->sequence, 0, core_->plan_version()},
                          Leave{}};
    CallCore([&] { return core_->Handle(node->peer, message, now_ms_); });
  }
  (node->role == Role::kServer ? totals_.server_failures
   : goodbye                   ? totals_.left
                               : totals_.switched_off)++;
  node->up = node->joined = false;
  whole_.first = 0;
  const int64_t back_ms = node->role == Role::kServer
                              ? static_cast<int64_t>(1000 * weather_.settings().server_back_s)
                              : weather_.AbsenceMs(node->site, now_ms_);
  At(now_ms_ + back_ms, [this, node, life = node->life] {
    if (node->life == life) ComeUp(node);
  });
}

// What is on its way to and from the site is lost. Its members go on when it is heard again.
void Swarm::SetSiteUp(uint32_t site, bool up) {
  site_up_[site] = up;
  whole_.first = 0;
  if (!up) {
    totals_.site_failures++;
    const double outage_ms = 1000 * weather_.settings().site_outage_s;
    return At(now_ms_ + static_cast<int64_t>(outage_ms), [this, site] { SetSiteUp(site, true); });
  }
  At(now_ms_ + weather_.SiteFailureMs(), [this, site] { SetSiteUp(site, false); });
  for (const auto& node : nodes_) {
    if (node->site != site || !node->up) continue;
    node->asked = false;
    node->running = 0;
    node->leased.clear();
    Later(node.get(), DelayMs(), [this, node = node.get()] { Beat(node); });
    if (node->role == Role::kWorker) BeginBatches(node.get());
  }
}

void Swarm::Beat(Node* node) {
  Later(node, settings_.heartbeat_ms, [this, node] { Beat(node); });
  if (!node->joined) return AskToJoin(node);  // a Join may go without an answer
  Heartbeat beat;
  if (node->role == Role::kServer) {
    if (!node->slots.empty()) {
      beat.load = LoadOf(*node);
      beat.memory_used_bytes = node->slots.size() * kSlotBytes;
    }
  } else {
    beat.batches_in_flight = node->running;
    beat.longest_batch_us = static_cast<uint32_t>(1000 * node->batch_ms);
  }
  Send(node, std::move(beat));
}

// Slots differ by what their labels are worth: the first ones are asked for most.
LoadReport Swarm::LoadOf(const Node& server) const {
  LoadReport load;
  load.interval_ms = settings_.heartbeat_ms;
  load.batches = 100;
  double work = 0;
  for (const uint32_t slot : server.slots) {
    load.slots.push_back(slot);
    load.work.push_back(static_cast<float>(100 / (1 + slot / 500.0)));
    work += load.work.back();
  }
  const size_t slots = server.slots.size();
  load.executor.resize(slots);
  for (auto* counts : {&load.retrieved, &load.used, &load.updated}) counts->resize(slots);
  load.service_us.resize(slots);
  load.bytes.assign(slots, kSlotBytes);
  load.busy = {static_cast<float>(std::min(1.0, work / (1000 * server.speed)))};
  return load;
}

void Swarm::Receive(Node* node, const Body& body) {
  if (const auto* reply = std::get_if<JoinReply>(&body)) {
    node->name = reply->name;
    node->joined = true;
  } else if (const auto* error = std::get_if<ErrorReply>(&body)) {
    totals_.refused++;
    // A new life, as the processes begin one.
    if (error->code == ErrorCode::kFenced || error->code == ErrorCode::kWrongRun) ComeUp(node);
  } else if (node->role == Role::kServer) {
    ReceiveAsServer(node, body);
  } else {
    ReceiveAsWorker(node, body);
  }
}

void Swarm::ReceivePlan(Node* node, const std::shared_ptr<const Plan>& plan) {
  auto& known = node->plans.known;
  if (known && known->version >= plan->version) return;
  const bool goes_on = known && GenerationOf(*known) == GenerationOf(*plan);
  known = plan;
  if (node->role == Role::kServer) {
    const bool moves = goes_on && node->plans.loaded;
    int64_t load_ms = 500;
    if (!moves) {
      const double slots =
          static_cast<double>(config_.cluster.slots) / static_cast<double>(plan->servers.size());
      load_ms = static_cast<int64_t>(slots * kSlotBytes / kLoadBytesPerMs);
    }
    return Later(node, load_ms, [this, node] { LoadPlan(node); });
  }
  if (!goes_on) {
    node->leased.clear();
    node->running = 0;
    node->asked = false;
  }
  node->paused_until_ms = 0;
  BeginBatches(node);
}

void Swarm::LoadPlan(Node* node) {
  const auto& plan = node->plans.known;
  if (node->plans.loaded == plan) return;
  node->plans.loaded = plan;
  whole_.first = 0;
  node->slots.clear();
  bool seated = false;
  for (size_t i = 0; i < plan->servers.size(); ++i) {
    if (plan->servers[i].incarnation.value != node->life) continue;
    seated = true;
    for (uint32_t slot = 0; slot < plan->slot_owner.size(); ++slot) {
      if (plan->slot_owner[slot] == i) node->slots.push_back(slot);
    }
  }
  const uint64_t bytes = node->slots.size() * kSlotBytes;
  if (seated) Send(node, Ready{plan->version, 1000, bytes, 0, 7000, kSlotBytes});
}

void Swarm::ReceiveAsServer(Node* node, const Body& body) {
  if (const auto* move = std::get_if<MoveSlots>(&body)) {
    if (move->slots.empty()) return;
    const uint64_t bytes = move->slots.size() * kSlotBytes;
    const auto copy_ms = static_cast<int64_t>(static_cast<double>(bytes) / kLoadBytesPerMs);
    Later(node, copy_ms, [this, node, move = move->move, bytes] {
      Send(node, MoveReady{move, bytes, 0});
    });
  } else if (const auto* request = std::get_if<CheckpointRequest>(&body)) {
    if (!node->plans.loaded) return;
    CheckpointDone done;
    done.name = request->name;
    const Plan& plan = *node->plans.loaded;
    for (size_t i = 0; i < plan.servers.size(); ++i) {
      if (plan.servers[i].incarnation.value == node->life) {
        done.shard = fmt::format("shard-{}-{}", plan.version, i);
      }
    }
    done.rows = 1000;
    done.files = {{"CURRENT", 16, 7}};
    done.bytes = 16;
    Later(node, static_cast<int64_t>(1000 + 4000 * weather_.Uniform()),
          [this, node, done = std::move(done)] { Send(node, done); });
  } else if (const auto* commit = std::get_if<CommitSteps>(&body)) {
    Send(node, StepsCommitted{commit->committed});
  }
}

void Swarm::ReceiveAsWorker(Node* node, const Body& body) {
  if (const auto* grant = std::get_if<LeaseGrant>(&body)) {
    node->asked = false;
    for (const LeaseBatch& batch : grant->batches) {
      const BatchId id{grant->epoch, grant->unit, batch.index};
      node->leased.push_back({grant->lease, id, batch.samples});
    }
    BeginBatches(node);
  } else if (const auto* wait = std::get_if<LeaseWait>(&body)) {
    Later(node, wait->retry_ms, [this, node] {
      if (!node->asked || !node->leased.empty()) return;
      Send(node, LeaseRequest{true});
    });
  } else if (const auto* orders = std::get_if<HeartbeatReply>(&body)) {
    node->paused_until_ms = orders->pause_ms == 0 ? 0 : now_ms_ + orders->pause_ms;
    if (orders->pause_ms == 0) return BeginBatches(node);
    if (node->running == 0) Send(node, Heartbeat{});
    Later(node, orders->pause_ms, [this, node] { BeginBatches(node); });
  }
}

void Swarm::BeginBatches(Node* node) {
  if (!node->plans.known || now_ms_ < node->paused_until_ms) return;
  while (node->running < settings_.in_flight && !node->leased.empty()) {
    const Node::Leased next = node->leased.front();
    node->leased.pop_front();
    node->running++;
    const double takes_ms = node->batch_ms * (0.5 + weather_.Uniform());
    Later(node, static_cast<int64_t>(takes_ms),
          [this, node, next] { EndBatch(node, next.lease, next.batch, next.samples); });
  }
  if (node->leased.size() <= settings_.in_flight && !node->asked) {
    node->asked = true;
    Send(node, LeaseRequest{true});
  }
}

void Swarm::EndBatch(Node* node, uint64_t lease, const BatchId& batch, uint32_t samples) {
  if (node->running == 0) return;  // of an earlier generation
  const Plan& plan = *node->plans.known;
  if (!Whole(plan)) {
    return Later(node, kAgainMs,
                 [this, node, lease, batch, samples] { EndBatch(node, lease, batch, samples); });
  }
  node->running--;
  BatchDone done;
  done.lease = lease;
  done.batch = batch;
  done.samples = samples;
  done.loss_sum = samples;
  const std::vector<bool> gives = GivesReceipt(plan, config_.cluster, LeaseKind::kTrain);
  done.loss_parts.assign(static_cast<size_t>(std::ranges::count(gives, true)), 0.0);
  done.loss_parts.at(0) = done.loss_sum;
  done.receipts = ReceiptsOf(core_->run().lease_keys.receipts, plan, config_.cluster, {node->life},
                             LeaseKind::kTrain, batch, done.loss_parts);
  Send(node, done);
  if (node->running == 0 && now_ms_ < node->paused_until_ms) Send(node, Heartbeat{});
  BeginBatches(node);
}

bool Swarm::Whole(const Plan& plan) {
  if (whole_.first == plan.version) return whole_.second;
  const bool whole = std::ranges::all_of(plan.servers, [&](const PlanServer& server) {
    const auto found = by_incarnation_.find(server.incarnation.value);
    if (found == by_incarnation_.end()) return false;
    const Node& node = *found->second;
    return node.up && site_up_[node.site] && node.plans.loaded &&
           GenerationOf(*node.plans.loaded) == GenerationOf(plan) &&
           node.plans.loaded->version >= plan.version;
  });
  whole_ = {plan.version, whole};
  return whole;
}

}  // namespace dslide
