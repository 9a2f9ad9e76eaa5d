// Members that go and come, and the plan's seats: the part of SchedulerCore that keeps a cluster
// together.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/plural.h"
#include "common/run/slot_plan.h"
#include "scheduler/core/scheduler_core.h"

namespace dslide {
namespace {

constexpr int64_t kSendAgainMs = 10000;
constexpr int64_t kStopPatienceMs = 10000;  // for a server that fell silent during a stop

double Seconds(int64_t ms) { return static_cast<double>(ms) / 1000.0; }

}  // namespace

void SchedulerCore::DropDeadMembers(int64_t now_ms) {
  std::vector<Member> dead;
  for (const Member* member : roster_.Dead(now_ms)) dead.push_back(*member);
  for (const Member& member : dead) {
    const std::string why = fmt::format("has been silent for {:.1f} s, taken for dead",
                                        Seconds(member.life.SilentMs(now_ms)));
    if (member.role == Role::kWorker) {
      DropWorker(member, true, why, now_ms);
    } else if (member.seated) {
      LoseServer(member, false, why, now_ms);
    } else {
      if (member.role == Role::kServer) {
        out_.Notice(fmt::format("{} {}", member.name, why));
        out_.Depart(member, true, why, now_ms);
      }
      roster_.Remove(member.incarnation);
    }
  }
}

void SchedulerCore::DropWorker(const Member& worker, bool lost, const std::string& why,
                               int64_t now_ms) {
  const size_t leases = book_ ? book_->Return(worker.incarnation) : 0;
  out_.Decide(fmt::format("{} {}: {} returned", worker.name, why, Plural(leases, "lease")), now_ms);
  out_.Depart(worker, lost, why, now_ms);
  out_.SendToSeated(roster_, DropBatches{worker.incarnation});
  roster_.Remove(worker.incarnation);
}

void SchedulerCore::LoseServer(const Member& server, bool left, const std::string& why,
                               int64_t now_ms) {
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (plan_.servers[i].incarnation == server.incarnation) seats_[i] = {true, now_ms, left};
  }
  out_.Decide(
      fmt::format("{} at {} {}; waiting for a replacement", server.name, server.address, why),
      now_ms);
  out_.Depart(server, true, why, now_ms);
  roster_.Remove(server.incarnation);
}

// A server that does not do its part although the scheduler hears it. The others do not wait for it
// to come back as it was.
void SchedulerCore::LeaveOut(const Member& server, const std::string& why, int64_t now_ms) {
  const Member gone = server;
  const std::string line = fmt::format("the server at {} {}; it is left out", gone.address, why);
  out_.Send(gone, Shutdown{line, 0});
  admission_.Bar(gone.address, line + " for some time", now_ms);
  LoseServer(gone, true, why, now_ms);
}

// Servers that no worker hears, although they have batches in flight and other servers answer them.
// A server that takes gradients is slow, not silent.
void SchedulerCore::LeaveOutSilent(int64_t now_ms) {
  if (!InPass()) return;
  const int64_t silence_ms = int64_t{2} * inputs_.config.cluster.request_timeout_ms;
  for (const Member* server : roster_.Seated()) {
    size_t asking = 0, unanswered = 0;
    for (const Member* worker : roster_.Of(Role::kWorker)) {
      if (worker->heartbeat.batches_in_flight == 0 || worker->life.Suspect(now_ms)) continue;
      const auto& silent = worker->heartbeat.silent_servers;
      asking++;
      unanswered += std::count(silent.begin(), silent.end(), server->incarnation.value) > 0;
    }
    const int64_t since_ms = std::max(server->trained_ms, server->joined_ms);
    if (unanswered == 0 || unanswered < asking || now_ms - since_ms < silence_ms) continue;
    LeaveOut(*server,
             "does not answer the workers (do they reach the address that --advertise names?)",
             now_ms);
  }
}

// Servers of the plan that are not ready while others are. False: there are none, or no others.
bool SchedulerCore::LeaveOutUnready(const std::string& why, int64_t now_ms) {
  std::vector<const Member*> unready = roster_.Seated();
  const size_t seated = unready.size();
  std::erase_if(unready, [](const Member* server) { return server->ready; });
  if (unready.empty() || unready.size() == seated) return false;
  for (const Member* server : unready) LeaveOut(*server, why, now_ms);
  return true;
}

// One server that does not load its slots holds up all others. They wait for it until
// cluster.join_timeout_s after the last of them was ready.
void SchedulerCore::TendLoading(int64_t now_ms) {
  const int64_t patience_ms = int64_t{1000} * inputs_.config.cluster.join_timeout_s;
  int64_t since_ms = 0;
  for (const Seat& seat : seats_) since_ms = std::max(since_ms, seat.since_ms);
  for (const Member* server : roster_.Seated()) {
    if (server->ready) since_ms = std::max(since_ms, server->ready_ms);
  }
  if (now_ms - since_ms <= patience_ms) return;
  LeaveOutUnready(fmt::format("has not loaded its slots within {} s of the others",
                              inputs_.config.cluster.join_timeout_s),
                  now_ms);
}

// A server of the plan that this life of the scheduler has not met, or had given up.
void SchedulerCore::OnServerJoined(Member& member, const Join& join, int64_t now_ms) {
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (plan_.servers[i].incarnation == member.incarnation) seats_[i] = {false, now_ms};
  }
  member.seated = true;
  member.ready = join.plan_version == plan_.version;
  if (!member.ready) return out_.Send(member, plan_);
  if (told_) out_.Send(member, CommitSteps{*told_});
  if (switch_) FinishPlanSwitch({}, now_ms);  // its Ready was lost with its connection
}

std::vector<size_t> SchedulerCore::VacantSeats() const {
  std::vector<size_t> vacant;
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (roster_.Find(plan_.servers[i].incarnation) == nullptr) vacant.push_back(i);
  }
  return vacant;
}

// Whether nobody waits for the server of a vacant seat any more.
bool SchedulerCore::SeatIsGone(size_t seat, int64_t now_ms) const {
  if (seats_[seat].lost) return true;
  const FailureDetector awaited(inputs_.config.cluster.heartbeat_ms, seats_[seat].since_ms);
  const auto spares = roster_.Spares();
  const bool replaced = std::any_of(spares.begin(), spares.end(), [&](const Member* spare) {
    return spare->asked_name == plan_.servers[seat].name;
  });
  return awaited.Dead(now_ms) || (replaced && awaited.Suspect(now_ms));
}

// Who sits where in the next plan: those who have a seat keep it, spares take the vacant ones,
// first those who ask for the name that is gone.
std::vector<SchedulerCore::Seated> SchedulerCore::ChooseServers() const {
  std::vector<const Member*> spares = roster_.Spares();
  const auto take = [&](const std::string& name) -> const Member* {
    if (spares.empty()) return nullptr;
    auto chosen = std::find_if(spares.begin(), spares.end(),
                               [&](const Member* m) { return m->asked_name == name; });
    if (chosen == spares.end()) chosen = spares.begin();
    const Member* spare = *chosen;
    spares.erase(chosen);
    return spare;
  };
  std::vector<Seated> servers;
  for (size_t seat = 0; seat < plan_.servers.size(); ++seat) {
    const Member* server = roster_.Find(plan_.servers[seat].incarnation);
    if (server == nullptr) server = take(plan_.servers[seat].name);
    if (server != nullptr) servers.push_back({server, seat});
  }
  while (servers.size() < inputs_.config.cluster.servers && !spares.empty()) {
    servers.push_back({take(""), std::nullopt});
  }
  return servers;
}

// Who gets which slots in a plan that begins at the checkpoint: who wrote a slot there, for the
// shard may lie on that server's own disk; else who has its seat. What is left is shared by
// capacity and memory, or equally where there was no plan.
SchedulerCore::Placement SchedulerCore::Place(const std::vector<Seated>& servers) const {
  const uint32_t slots = inputs_.config.cluster.slots;
  constexpr uint16_t kVacant = 0xffff;
  std::vector<uint16_t> of_seat(plan_.servers.size(), kVacant);
  std::map<std::string, uint16_t> by_name;
  std::vector<Incarnation> incarnations;
  for (size_t i = 0; i < servers.size(); ++i) {
    const auto index = static_cast<uint16_t>(i);
    if (servers[i].seat) of_seat[*servers[i].seat] = index;
    by_name[servers[i].server->name] = index;
    incarnations.push_back(servers[i].server->incarnation);
  }
  std::vector<uint16_t> owners(slots, kVacant);
  const bool had_plan = plan_.slot_owner.size() == slots;
  const auto& checkpoint = checkpointer_.newest();
  const bool told = checkpoint && checkpoint->slot_shard.size() == slots;
  for (size_t slot = 0; slot < slots; ++slot) {
    if (had_plan) owners[slot] = of_seat[plan_.slot_owner[slot]];
    if (!told) continue;
    const auto writer = by_name.find(checkpoint->shards[checkpoint->slot_shard[slot]].server);
    if (writer != by_name.end()) owners[slot] = writer->second;
  }
  if (!had_plan && !told) {
    owners = EqualPlan(1, slots, std::vector<PlanServer>(servers.size())).slot_owner;
  }
  const auto limits = loads_.Owners(incarnations, std::vector<bool>(servers.size()));
  std::vector<uint64_t> used(servers.size());
  for (uint32_t slot = 0; slot < slots; ++slot) {
    uint16_t& owner = owners[slot];
    if (owner == kVacant) continue;
    used[owner] += loads_.SlotBytes(slot);
    if (limits[owner].memory_bytes > 0 && used[owner] > limits[owner].memory_bytes) owner = kVacant;
  }
  BalanceOptions options;
  constexpr double kNever = 1e9;  // only what has to be placed
  options.threshold = kNever;
  const BalancePlan plan = PlanBalance(limits, loads_.Slots(owners, servers.size()), options);
  for (const SlotMove& move : plan.moves) {
    if (move.from == kNoOwner) owners[move.slot] = static_cast<uint16_t>(move.to);
  }
  Placement placement;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    if (owners[slot] != kVacant) continue;
    owners[slot] = static_cast<uint16_t>(slot % servers.size());
    placement.lacking_bytes += loads_.SlotBytes(slot);
  }
  placement.slot_owner = std::move(owners);
  return placement;
}

// Fills vacant seats, and lets the pass go on once every seat has a server that is ready.
void SchedulerCore::TendSeats(int64_t now_ms) {
  if (phase_ == Phase::kFinished) return;
  const ClusterConfig& cluster = inputs_.config.cluster;
  const int64_t patience_ms = int64_t{1000} * cluster.join_timeout_s;
  if (!live_) {
    std::vector<const Member*> spares = roster_.Spares();
    const bool enough = spares.size() >= cluster.servers;
    if (enough && lacking_bytes_ == 0) spares.resize(cluster.servers);
    // By name, so that a cluster that starts again with the same names has the same slots.
    std::sort(spares.begin(), spares.end(),
              [](const Member* a, const Member* b) { return a->name < b->name; });
    std::vector<Seated> servers;
    for (const Member* spare : spares) servers.push_back({spare, std::nullopt});
    if (enough && TryPlan(servers, now_ms)) return;
    if (now_ms - started_ms_ > patience_ms) {
      Finish(TryLater(fmt::format("{} after {} s (cluster.join_timeout_s)", WaitingLine(),
                                  cluster.join_timeout_s)),
             "not enough servers joined", now_ms);
    }
    return;
  }
  const std::vector<size_t> vacant = VacantSeats();
  if (vacant.empty()) {
    lacking_bytes_ = 0;
    if (!InPass() && roster_.AllReady()) Go(now_ms);
    if (phase_ == Phase::kLoading) TendLoading(now_ms);
    return;
  }
  Interrupt(now_ms);
  int64_t last_loss_ms = 0;
  bool all_gone = true, one_left = false;
  for (const size_t seat : vacant) {
    last_loss_ms = std::max(last_loss_ms, seats_[seat].since_ms);
    all_gone &= SeatIsGone(seat, now_ms);
    one_left |= seats_[seat].left;
  }
  if (stop_wanted_ && (one_left || now_ms - last_loss_ms > kStopPatienceMs)) {
    return StopWithoutServers(now_ms);
  }
  if (!all_gone || GoOnWithout(vacant, now_ms)) return;
  const int64_t waited_ms = now_ms - last_loss_ms;
  const std::vector<Seated> servers = ChooseServers();
  // Of more servers than the run asks for, it can do without some; of fewer it needs all.
  const bool enough = servers.size() >= std::min<size_t>(cluster.servers, plan_.servers.size());
  const bool takeover = cluster.takeover_s > 0 && waited_ms >= int64_t{1000} * cluster.takeover_s;
  if (!servers.empty() && (enough || takeover) && TryPlan(servers, now_ms)) return;
  if (waited_ms > patience_ms) {
    Finish(TryLater(fmt::format("no server took the place of {} within {} s "
                                "(cluster.join_timeout_s); start the cluster again with --resume",
                                plan_.servers[vacant[0]].name, cluster.join_timeout_s)),
           "servers are missing", now_ms);
  }
}

// False: they have too little memory for all slots, and more servers have to come.
bool SchedulerCore::TryPlan(const std::vector<Seated>& servers, int64_t now_ms) {
  const Placement placement = Place(servers);
  const bool changed = placement.lacking_bytes != lacking_bytes_;
  lacking_bytes_ = placement.lacking_bytes;
  if (lacking_bytes_ == 0) {
    PublishPlan(servers, placement, now_ms);
  } else if (changed) {
    out_.Decide(WaitingLine(), now_ms);
  }
  return lacking_bytes_ == 0;
}

// A new generation: servers and what counts go back to the last complete checkpoint together.
void SchedulerCore::PublishPlan(const std::vector<Seated>& servers, const Placement& placement,
                                int64_t now_ms) {
  const auto& checkpoint = checkpointer_.newest();
  if (live_) {
    const uint64_t kept = checkpointer_.saved_batches().value_or(0);
    out_.Decide(fmt::format("all go back to {}, {} to be done again",
                            checkpoint ? "checkpoint " + checkpoint->name : "the beginning",
                            Plural(batches_ - std::min(batches_, kept), "batch", "batches")),
                now_ms);
  }
  GoBackToCheckpoint();
  lacking_bytes_ = 0;
  recoveries_ += live_;
  Plan next;
  next.version = next.generation = plan_.version + 1;
  next.slot_owner = placement.slot_owner;
  for (const Seated& seated : servers) {
    next.servers.push_back(seated.server->Seat());
    loads_.WarmUp(seated.server->incarnation);
  }
  plan_ = std::move(next);
  pause_.reset();
  plan_.restore = last_checkpoint();
  out_.Record(
      LedgerRestored{checkpoint ? checkpoint->name : "", epoch_, batches_, samples_, done_});
  out_.Record(LedgerPlanned{plan_});
  for (Member* server : roster_.Of(Role::kServer)) {
    server->seated = std::any_of(servers.begin(), servers.end(),
                                 [&](const Seated& s) { return s.server == server; });
    server->ready = false;
    server->committed.reset();
  }
  seats_.assign(servers.size(), {false, now_ms});
  live_ = true;
  phase_ = Phase::kLoading;
  pending_requests_.clear();
  out_.SendToSeated(roster_, plan_);
  out_.Notice(fmt::format("slot plan {}: {} over {}{}", plan_.version,
                          Plural(plan_.slot_owner.size(), "slot"),
                          Plural(plan_.servers.size(), "server"),
                          checkpoint ? fmt::format(", from checkpoint {}", checkpoint->name) : ""));
}

void SchedulerCore::GoBackToCheckpoint() {
  CountedWork counted = checkpointer_.Restore();
  epoch_ = counted.epoch;
  batches_ = counted.batches;
  samples_ = counted.samples;
  done_ = std::move(counted.done);
  order_.reset();
  book_.reset();
  steps_.reset();
  evaluator_.reset();
  checkpointer_.BeginGeneration();
  told_.reset();
  told_batches_ = 0;
  interrupted_.reset();
  training_complete_ = false;
  moving_.reset();
  switch_.reset();
  gone_.clear();
  lease_end_.reset();
  balancer_.BeginGeneration();
}

// The pass waits; batches in flight may still be reported.
void SchedulerCore::Interrupt(int64_t now_ms) {
  if (InPass()) {
    interrupted_ = phase_;
    if (training_since_ms_ >= 0) Pause(now_ms);
    checkpointer_.GiveUp(now_ms);
    CancelMoves();
  }
  phase_ = Phase::kGathering;
}

// All seats have servers that are ready.
void SchedulerCore::Go(int64_t now_ms) {
  if (interrupted_) {
    phase_ = *interrupted_;
    interrupted_.reset();
    if (phase_ == Phase::kTraining) training_since_ms_ = now_ms;
    out_.Notice("all servers are back as they were; going on");
    Proceed(now_ms);
  } else {
    checkpointer_.BeginInterval(now_ms);
    BeginPass(now_ms);
  }
  out_.SendToAll(roster_, Role::kWorker, plan_);
}

// What servers have not answered is sent again: a broken connection may have swallowed it.
void SchedulerCore::SendAgain(int64_t now_ms) {
  if (now_ms - sent_again_ms_ < kSendAgainMs) return;
  sent_again_ms_ = now_ms;
  for (const Member* server : roster_.Seated()) {
    if (!server->ready) out_.Send(*server, plan_);
    checkpointer_.SendAgain(*server, &out_);
    if (told_ && server->ready && server->committed != told_)
      out_.Send(*server, CommitSteps{*told_});
  }
}

std::string SchedulerCore::WaitingLine() const {
  const auto named = [](std::string names, const std::string& name) {
    return names.empty() ? name : names + ", " + name;
  };
  std::string missing;
  if (lacking_bytes_ > 0) {
    return fmt::format(
        "the servers' memory is {} MB less than their slots need (cluster.memory_mb); waiting for "
        "more servers",
        (lacking_bytes_ >> 20) + 1);
  }
  if (live_) {
    for (const size_t seat : VacantSeats()) missing = named(missing, plan_.servers[seat].name);
    if (!missing.empty()) {
      const uint32_t takeover_s = inputs_.config.cluster.takeover_s;
      return fmt::format(
          "waiting for {} or a replacement{}", missing,
          takeover_s > 0 ? fmt::format(" (after {} s the others take over)", takeover_s) : "");
    }
  }
  const uint32_t wanted = inputs_.config.cluster.servers;
  const size_t servers = roster_.Count(Role::kServer);
  if (phase_ == Phase::kLoading) {
    for (const Member* server : roster_.Seated()) {
      if (!server->ready) missing = named(missing, server->name);
    }
    return fmt::format("have {}, loading slots: {}", Plural(servers, "server"), missing);
  }
  if (!live_ && servers < wanted) {
    return fmt::format("have {} of {} servers and {}, waiting for {}", servers, wanted,
                       Plural(roster_.Count(Role::kWorker), "worker"),
                       Plural(wanted - servers, "more server"));
  }
  return fmt::format("have {}, waiting for workers", Plural(servers, "server"));
}

}  // namespace dslide
