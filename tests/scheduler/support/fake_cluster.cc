#include "tests/scheduler/support/fake_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <variant>

#include "common/data/checksum.h"
#include "scheduler/core/run_end.h"
#include "tests/support/numbered_samples.h"
#include "tests/support/tickets.h"

namespace dslide {
namespace {

// The reasons for which one member ends, not the run.
constexpr const char* kMemberEnds[] = {
    "this server has no slots", "this server's slots have gone to others",
    "the server at ",  // is left out
    "there are ",      // too many observers
};

// The exit code that members are told is one that the end's row of scheduler/README.md has.
void CheckExitCode(const Shutdown& shutdown) {
  const bool known = std::ranges::any_of(
      kMemberEnds, [&](const char* reason) { return shutdown.reason.starts_with(reason); });
  const auto has_reason = [&](const RunEnd* end) { return end->reason == shutdown.reason; };
  CHECK_MESSAGE((known || std::ranges::any_of(run_end::kAll, has_reason)), shutdown.reason);
  for (const RunEnd* end : run_end::kAll) {
    const std::string codes = end->exit_code;
    if (shutdown.reason != end->reason || codes.ends_with("that of its error")) continue;
    CAPTURE(codes);
    CAPTURE(shutdown.reason);
    CHECK(std::regex_search(codes, std::regex(fmt::format("\\b{}\\b", shutdown.exit_code))));
  }
}

}  // namespace

Config RunConfig() {
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

FakeCluster::FakeCluster(Config config, std::optional<Manifest> resume, bool with_test)
    : servers(config),
      config_(std::move(config)),
      with_test_(with_test),
      train_(NumberedSamples(kSamples, 10)),
      test_(NumberedSamples(20, 10)),
      resume_(std::move(resume)) {
  if (resume_) servers.AddManifest(*resume_);
  MakeCore();
}

FakeCluster::~FakeCluster() = default;

void FakeCluster::Send(uint64_t member, Body body) {
  Say({{77}, {member}, ++sequence_, 0, core_->plan_version()}, std::move(body));
}

void FakeCluster::Say(const Envelope& envelope, Body body) {
  if (auto* done = std::get_if<BatchDone>(&body); done != nullptr && done->receipts.empty()) {
    GiveReceipts(envelope, done);
  }
  if (OfThisGeneration(envelope.plan_version)) NoteTaken(body);
  if (std::holds_alternative<Leave>(body)) alive.erase(envelope.incarnation.value);
  if (!died) Apply(core_->Handle(PeerOf(envelope.incarnation.value), {envelope, body}, now));
  AnswerServers();
}

void FakeCluster::Tick() {
  if (!died) Apply(core_->Tick(now));
  AnswerServers();
  CheckPromise();
}

void FakeCluster::Stop() {
  Apply(core_->RequestStop(now));
  AnswerServers();
}

void FakeCluster::Join(uint64_t member, Role role, const std::string& name, uint32_t plan_version) {
  dslide::Join join;
  join.role = role;
  join.name = name;
  join.cores = 1;
  if (role == Role::kServer) {
    join.memory_bytes = memory_bytes;
    join.address = address;
  }
  join.plan_version = plan_version;
  alive.insert(member);
  if (role == Role::kServer) servers.Add(member);
  Send(member, join);
}

void FakeCluster::Start(uint64_t workers) {
  Join(1, Role::kServer);
  Join(2, Role::kServer);
  for (uint64_t w = 0; w < workers; ++w) Join(11 + w, Role::kWorker);
}

void FakeCluster::Silence(uint64_t member) {
  alive.erase(member);
  if (servers.contains(member)) servers.at(member).alive = false;
}

void FakeCluster::Return(uint64_t member) {
  alive.insert(member);
  if (servers.contains(member)) servers.at(member).alive = true;
  Send(member, Heartbeat{});
}

void FakeCluster::Wait(int64_t ms) {
  for (const int64_t end = now + ms; now < end;) {
    now = std::min(end, now + 1000);
    const std::set<uint64_t> heard = alive;
    for (const uint64_t member : heard) {
      if (core_->phase() != SchedulerCore::Phase::kFinished) Send(member, BeatOf(member));
    }
    Tick();
  }
}

void FakeCluster::Restart() {
  died = false;
  dies_after.reset();
  workers_.clear();
  for (auto at = alive.begin(); at != alive.end();) {
    at = servers.contains(*at) ? std::next(at) : alive.erase(at);
  }
  MakeCore();
  const std::set<uint64_t> heard = alive;
  for (const uint64_t member : heard) Send(member, Heartbeat{});
}

bool FakeCluster::Lease(uint64_t worker) {
  const size_t before = work(worker).size();
  Send(worker, LeaseRequest{});
  return work(worker).size() > before;
}

bool FakeCluster::Work(uint64_t worker) {
  if (work(worker).empty() && !Lease(worker)) return false;
  const auto [grant, batch] = work(worker).front();
  work(worker).pop_front();
  BatchDone done = Report(grant, batch);
  if (tail_error > 0) {
    done.probed = 1;
    done.tail_error = tail_error;
  }
  Send(worker, std::move(done));
  return true;
}

void FakeCluster::WorkAll(uint64_t worker) {
  while (core_->phase() != SchedulerCore::Phase::kFinished && Work(worker)) {
  }
}

const Body& FakeCluster::LastTo(uint64_t member) {
  const auto& inbox = received[PeerOf(member)];
  REQUIRE(!inbox.empty());
  return inbox.back();
}

Plan FakeCluster::PlanOf(uint64_t member) {
  Plan last;
  for (const Body& body : received[PeerOf(member)]) {
    if (const auto* plan = std::get_if<Plan>(&body)) last = *plan;
  }
  return last;
}

void FakeCluster::MakeCore() {
  RunInputs inputs{config_,         {77}, &train_, with_test_ ? &test_ : nullptr, "/checkpoints",
                   Checksum(train_)};
  inputs.held_out = held_out_;
  inputs.open_keys = open_keys_;
  inputs.ledger = ledger;
  inputs.settings = ledger.plan.settings;
  inputs.keyed = keyed;
  inputs.lease_keys.tickets = SigningKey::FromSeed({++lives_});
  inputs.lease_keys.receipts = {lives_};
  std::vector<Manifest> complete;
  if (resume_) complete.push_back(*resume_);
  complete.insert(complete.end(), manifests.begin(), manifests.end());
  if (!complete.empty()) {
    inputs.checkpoint = complete.back();
    inputs.checkpoint_path = "/checkpoints/" + complete.back().name;
  }
  for (const Manifest& manifest : complete) inputs.checkpoints.push_back(manifest.name);
  core_ = std::make_unique<SchedulerCore>(std::move(inputs), now);
}

void FakeCluster::LeaveOpen(std::vector<std::string> keys) {
  open_keys_ = std::move(keys);
  MakeCore();
}

void FakeCluster::HoldOut(std::vector<uint32_t> numbers) {
  held_out_ = std::move(numbers);
  MakeCore();
}

bool FakeCluster::Dies() {
  if (dies_after && (*dies_after)-- == 0) died = true;
  return died;
}

bool FakeCluster::OfThisGeneration(uint32_t version) const {
  return version <= core_->plan_version() && version >= GenerationOf(core_->plan());
}

Heartbeat FakeCluster::BeatOf(uint64_t member) const {
  Heartbeat beat;
  if (!servers.contains(member)) {
    const auto has = in_flight.find(member);
    beat.batches_in_flight = has == in_flight.end() ? 0 : has->second;
    beat.longest_batch_us = longest_batch_us;
    const auto silent = silent_servers.find(member);
    if (silent != silent_servers.end()) beat.silent_servers = silent->second;
  } else if (!servers.slot_work.empty()) {
    beat.load = servers.LoadOf(member);
    beat.memory_used_bytes = beat.load->slots.size() * servers.slot_bytes;
  }
  return beat;
}

// Adds the receipts of the plan's servers, which have seen the loss that the worker reports.
void FakeCluster::GiveReceipts(const Envelope& envelope, BatchDone* done) const {
  const auto plan = plans_.find(envelope.plan_version);
  if (plan == plans_.end()) return;
  const bool evaluated = done->predictions.offsets.size() > 1;
  const LeaseKind kind = evaluated ? LeaseKind::kEvaluate : LeaseKind::kTrain;
  if (!evaluated) {
    const std::vector<bool> gives = GivesReceipt(plan->second, config_.cluster, kind);
    done->loss_parts.assign(static_cast<size_t>(std::ranges::count(gives, true)), 0.0);
    done->loss_parts.at(0) = done->loss_sum;
  }
  done->receipts = ReceiptsOf(core_->run().lease_keys.receipts, plan->second, config_.cluster,
                              envelope.incarnation, kind, done->batch, done->loss_parts);
}

// Servers have taken a batch before its worker reports it.
void FakeCluster::NoteTaken(const Body& body) {
  const auto* done = std::get_if<BatchDone>(&body);
  if (done == nullptr || done->predictions.offsets.size() > 1) return;
  servers.Take(done->batch, GenerationOf(core_->plan()));
}

void FakeCluster::Garble(uint64_t member) {
  Apply(core_->OnMalformed(PeerOf(member), now));
  AnswerServers();
}

void FakeCluster::Apply(SchedulerCore::Effects effects) {
  for (const LedgerEntry& entry : effects.ledger) {
    if (Dies()) return;
    ledger.Apply(entry);
    entries.push_back(entry);
    promise.Logged(entry);
  }
  std::vector<std::function<SchedulerCore::Effects()>> outcomes;
  for (const SchedulerAction& one : effects.actions) {
    if (const auto* send = std::get_if<action::Send>(&one)) {
      if (Dies()) return;
      Deliver(send->to, *send->body);
    } else if (const auto* log = std::get_if<action::Log>(&one)) {
      notices.push_back(log->event);
    } else if (const auto* debug = std::get_if<action::LogDebug>(&one)) {
      notices.push_back(debug->event);
    } else if (const auto* evaluation = std::get_if<action::ShowEvaluation>(&one)) {
      evaluations.push_back(evaluation->result);
    } else if (const auto* epoch = std::get_if<action::ShowEpoch>(&one)) {
      epochs_done.push_back(epoch->epochs);
    } else if (const auto* probe = std::get_if<action::Probe>(&one)) {
      const auto found = answers_at.find(probe->address);
      const Incarnation who = found == answers_at.end() ? probe->server : found->second;
      if (who == Incarnation()) continue;
      outcomes.emplace_back([=, this] { return core_->OnProbe(probe->server, who, now); });
    } else if (const auto* write = std::get_if<action::WriteManifest>(&one)) {
      if (Dies()) return;
      servers.CheckSaved(write->manifest);
      if (manifest_status.ok()) manifests.push_back(write->manifest);
      outcomes.emplace_back([this] { return core_->OnManifest(manifest_status, now); });
    }
  }
  for (const auto& outcome : outcomes) {
    if (Dies()) return;
    Apply(outcome());
  }
}

void FakeCluster::Deliver(const PeerId& to, const Body& body) {
  if (const auto* shutdown = std::get_if<Shutdown>(&body)) CheckExitCode(*shutdown);
  received[to].push_back(body);
  const uint64_t member = MemberOf(to);
  if (const auto* grant = std::get_if<LeaseGrant>(&body)) {
    workers_[member].TakeGrant(*grant);
    for (const LeaseBatch& batch : grant->batches) {
      if (grant->kind != LeaseKind::kTrain) continue;
      promise.Leased(member, {grant->epoch, grant->unit, batch.index}, batch);
    }
  }
  if (const auto* plan = std::get_if<Plan>(&body)) {
    plans_[plan->version] = *plan;
    workers_[member].TakePlan(*plan);
  }
  if (servers.contains(member)) to_servers_.push_back({member, core_->plan_version(), body});
}

void FakeCluster::AnswerServers() {
  while (servers_answer && !to_servers_.empty()) {
    const ToServer next = to_servers_.front();
    to_servers_.pop_front();
    if (!servers.at(next.server).alive) continue;
    if (const auto* error = std::get_if<ErrorReply>(&next.body)) {
      HandleRefusal(next.server, error->code);
    } else if (auto reply = servers.Answer(next.server, next.plan_version, next.body)) {
      Send(next.server, *std::move(reply));
    }
  }
}

void FakeCluster::HandleRefusal(uint64_t server, ErrorCode code) {
  if (code == ErrorCode::kWrongRun) {
    Join(server, Role::kServer, servers.at(server).name, servers.at(server).loaded);
  } else if (code == ErrorCode::kFenced) {
    const std::string name = servers.Fence(server);
    alive.erase(server);
    if (fenced_return) Join(next_life_++, Role::kServer, name);
  }
}

}  // namespace dslide
