#include "tests/simulation/sim_cluster.h"

#include "common/run/slot_plan.h"

#include "tests/simulation/sim_scheduler.h"
#include "tests/simulation/sim_server.h"
#include "tests/simulation/sim_worker.h"

namespace dslide::sim {
namespace {

constexpr int64_t kTickUs = 100 * kMs;
constexpr int64_t kDeadlineUs = 600 * kSecond;  // after the faults' end
constexpr int64_t kFarewellUs = 10 * kSecond;   // for members to leave after the scheduler

}  // namespace

SimCluster::SimCluster(const SimSetup& setup, FaultPlan plan, uint64_t seed, std::FILE* trace_out)
    : numbers_(setup),
      plan_(std::move(plan)),
      world_(setup, seed, trace_out),
      gone_(numbers_.count()),
      away_until_us_(numbers_.count()),
      happened_(kFaultKinds),
      run_{Mix64(seed)} {
  world_.reached = [this](SimHost* host, Point point, size_t kind) {
    return Reached(host, point, kind);
  };
  for (uint32_t i = 0; i < numbers_.count(); ++i) {
    const std::string name = i == 0                 ? "scheduler"
                             : numbers_.IsServer(i) ? fmt::format("server-{}", i)
                                                    : fmt::format("worker-{}", i - setup.servers);
    hosts_.push_back(std::make_unique<SimHost>(i, name, &world_.clock));
    hosts_.back()->JumpClock(world_.Draw(1, 1000 * kSecond));  // no two clocks agree
  }
  for (const auto& from : hosts_) {
    for (const auto& to : hosts_) {
      Weather& weather = world_.network.Between(from.get(), to.get());
      weather.delay_us = world_.Draw(100, 10 * kMs);
      weather.jitter_us = world_.Draw(100, 20 * kMs);
    }
  }
}

SimOutcome SimCluster::Run() {
  world_.trace.Note("run", "{}", world_.setup.Describe());
  for (const auto& host : hosts_) LaunchLater(host.get(), world_.Draw(0, 500 * kMs));
  ScheduleFaults(plan_.faults);
  world_.clock.At(plan_.end_us, [this] { EndFaults(); });
  while (!finished_ && world_.clock.Step(plan_.end_us + kDeadlineUs)) LookAfterExits();
  const int64_t duration_us = world_.clock.now_us();
  if (finished_) {
    while (!Finished() && world_.clock.Step(duration_us + kFarewellUs)) LookAfterExits();
  }
  Judge();
  SimOutcome outcome;
  outcome.digest = DigestOfResult();
  Plan first;
  for (const LedgerEntry& entry : world_.disk.ledger) {
    outcome.checkpoints += std::holds_alternative<LedgerCheckpointed>(entry);
    const auto* planned = std::get_if<LedgerPlanned>(&entry);
    if (planned == nullptr) continue;
    const Plan& plan = planned->plan;
    if (outcome.plans++ == 0) first = plan;
    const bool moves = GenerationOf(plan) != plan.version;
    outcome.moves += moves;
    outcome.most_servers = std::max(outcome.most_servers, plan.servers.size());
    outcome.restores += !moves && !plan.restore.empty();
    outcome.first_layout &=
        plan.slot_owner == first.slot_owner && plan.servers.size() == first.servers.size();
  }
  outcome.first_layout &= !world_.slots_moved;
  outcome.violations = world_.oracles.violations();
  outcome.duration_us = duration_us;
  outcome.events = world_.clock.events();
  outcome.messages = world_.network.messages();
  outcome.faults = happened_;
  return outcome;
}

std::unique_ptr<SimProcess> SimCluster::NewProcess(SimHost* host) {
  const uint32_t number = host->number();
  if (number == 0) return std::make_unique<SimScheduler>(&world_, host, run_);
  if (numbers_.IsServer(number)) return std::make_unique<SimServer>(&world_, host);
  const uint32_t worker = number - 1 - numbers_.servers;
  const bool with_data = worker < world_.setup.workers_with_data;
  return std::make_unique<SimWorker>(&world_, host, with_data ? &world_.setup.train : nullptr);
}

void SimCluster::Launch(SimHost* host) {
  const uint32_t number = host->number();
  if (host->alive() || gone_[number] || finished_) return;
  if (world_.clock.now_us() < away_until_us_[number]) return;
  world_.trace.Note(host->name(), "is started");
  host->Begin(NewProcess(host));
  ScheduleTick(host);
}

void SimCluster::LaunchLater(SimHost* host, int64_t delay_us) {
  world_.clock.After(delay_us, [this, host] { Launch(host); });
}

void SimCluster::ScheduleTick(SimHost* host) {
  world_.clock.After(kTickUs, [this, host, life = host->life()] {
    if (host->life() != life || !host->alive()) return;
    if (!host->paused()) host->process()->Tick();
    ScheduleTick(host);
  });
}

// As the launcher: who ended with "try again later" is started again.
void SimCluster::LookAfterExits() {
  for (const auto& host : hosts_) {
    if (!host->alive() || !host->process()->exit()) continue;
    const Status status = *host->process()->exit();
    world_.trace.Note(host->name(), "has ended: {}", status.ok() ? "well" : status.error().message);
    host->End();
    world_.network.HostEnded(host.get(), true);
    if (host->number() == 0) {
      finished_ = status.ok();
      if (!finished_) LaunchLater(host.get(), world_.Draw(10 * kMs, 1 * kSecond));
    } else if (!finished_) {
      LaunchLater(host.get(), world_.Draw(10 * kMs, 1 * kSecond));
    }
    if (status.ok()) continue;
    CheckMayEnd(*host, status.error());
    // Its user reads that servers are missing, and starts some.
    if (host->number() == 0 && status.error().kind == ErrorKind::kTryLater) BringBackTheGone();
  }
}

void SimCluster::BringBackTheGone() {
  for (const auto& host : hosts_) {
    if (!gone_[host->number()]) continue;
    gone_[host->number()] = false;
    LaunchLater(host.get(), world_.Draw(10 * kMs, 1 * kSecond));
  }
}

// With an error only the scheduler does, where the last checkpoint could not be written; its user
// starts it again.
void SimCluster::CheckMayEnd(const SimHost& host, const Error& error) {
  const bool disk_failed =
      host.number() == 0 && happened_[static_cast<size_t>(FaultKind::kDisk)] > 0;
  if (error.kind == ErrorKind::kTryLater || error.kind == ErrorKind::kPreempted || disk_failed) {
    return;
  }
  world_.oracles.Violated(host.name() + " failed: " + error.message);
}

bool SimCluster::Finished() const {
  return std::none_of(hosts_.begin(), hosts_.end(), [](const auto& h) { return h->alive(); });
}

void SimCluster::ScheduleFaults(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    world_.trace.Note("faults", "planned: {}", fault.Describe());
    if (fault.point) {
      pending_.push_back({fault, fault.count});
    } else {
      world_.clock.At(fault.at_us, [this, fault] { Happen(fault); });
    }
  }
}

bool SimCluster::Reached(SimHost* reaching, Point point, size_t kind) {
  const uint64_t life = reaching->life();
  for (Pending& pending : pending_) {
    const Fault& fault = pending.fault;
    if (pending.over || fault.host != reaching->number() || *fault.point != point ||
        world_.clock.now_us() < fault.at_us) {
      continue;
    }
    if (!fault.message.empty() && fault.message != BodyName(kind)) continue;
    if (--pending.left > 0) continue;
    pending.over = true;
    Happen(fault);
    if (reaching->life() != life) return true;
  }
  return false;
}

void SimCluster::Kill(SimHost* victim) {
  victim->End();
  world_.network.HostEnded(victim, false);
}

void SimCluster::Happen(Fault fault) {
  // Before there is a plan the run waits for all its servers.
  if (fault.kind == FaultKind::kGone && !world_.oracles.has_plan()) fault.kind = FaultKind::kCrash;
  if (world_.clock.now_us() >= plan_.end_us || finished_) return;
  SimHost* victim = &host(fault.host);
  SimHost* other = &host(fault.other);
  world_.trace.Note("faults", "{}", fault.Describe());
  happened_[static_cast<size_t>(fault.kind)]++;
  switch (fault.kind) {
    case FaultKind::kGone:
      gone_[fault.host] = true;
      Kill(victim);
      break;
    case FaultKind::kCrash:
      Kill(victim);
      if (fault.host == 0 && fault.kept) {
        world_.disk.LosePower(static_cast<size_t>(world_.Draw(0, 4)));
      }
      LaunchLater(victim, fault.duration_us);
      break;
    case FaultKind::kPause:
      victim->Pause();
      world_.clock.After(fault.duration_us, [this, victim, life = victim->life()] {
        if (victim->life() == life) world_.trace.Note(victim->name(), "goes on");
        if (victim->life() == life) victim->Resume();
      });
      break;
    case FaultKind::kStop:
      victim->Run(victim->life(), [victim] { victim->process()->Stop(); });
      break;
    case FaultKind::kAbsence:
      away_until_us_[fault.host] = world_.clock.now_us() + fault.duration_us;
      if (fault.kept) {
        victim->Run(victim->life(), [victim] { victim->process()->Stop(); });
      } else {
        Kill(victim);
      }
      LaunchLater(victim, fault.duration_us);
      break;
    case FaultKind::kClockJump:
      victim->JumpClock(fault.duration_us);
      break;
    case FaultKind::kBreak:
      world_.network.Break(victim, other);
      break;
    case FaultKind::kPartition:
      world_.network.Block(victim, other, world_.clock.now_us() + fault.duration_us, fault.kept);
      break;
    case FaultKind::kDisk:
      victim->FailDisk(world_.clock.now_us() + fault.duration_us);
      break;
    case FaultKind::kWeather:
      for (const auto& from : hosts_) {
        for (const auto& to : hosts_) {
          Weather& weather = world_.network.Between(from.get(), to.get());
          weather.loss = fault.weather.loss;
          weather.duplicates = fault.weather.duplicates;
          weather.overtaking = fault.weather.overtaking;
        }
      }
      world_.clock.After(fault.duration_us, [this] { world_.network.EndWeather(); });
      break;
  }
}

void SimCluster::EndFaults() {
  if (finished_) return;
  world_.trace.Note("faults", "all is well from here on");
  world_.network.EndWeather();
  world_.network.EndBlockades();
  for (const auto& host : hosts_) {
    host->FailDisk(0);
    host->Resume();
    Launch(host.get());
  }
}

// Of the last checkpoint's rows, wherever they lie.
uint64_t SimCluster::DigestOfResult() const {
  const SimCheckpoint* result = world_.disk.Newest();
  if (result == nullptr) return 0;
  StoredRows rows;
  for (const ManifestShard& shard : result->manifest->shards) {
    const auto found = result->shards.find(shard.directory);
    if (found != result->shards.end())
      rows.insert(found->second.rows.begin(), found->second.rows.end());
  }
  uint64_t digest = 0;
  for (const auto& [key, value] : rows) {
    for (const uint8_t byte : value) digest = Mix64(digest ^ byte);
  }
  return digest;
}

void SimCluster::Judge() {
  world_.oracles.Recount(world_.disk.ledger, finished_);
  const SimCheckpoint* result = world_.disk.Newest();
  if (finished_ && (result == nullptr || result->manifest->batches != world_.setup.batches())) {
    world_.oracles.Violated("the last checkpoint has not all batches");
  }
  if (!finished_) {
    world_.oracles.Violated(
        fmt::format("the run has not finished {} s after the last fault", kDeadlineUs / kSecond));
  }
}

}  // namespace dslide::sim
