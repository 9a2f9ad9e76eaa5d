#include "scheduler/plan/seats.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/run/slot_plan.h"

namespace dslide {
namespace {

constexpr int64_t kIdleMs = 5000;  // after which nobody will show what newcomers are good for

}  // namespace

Plan WithoutEmpty(const Plan& plan, const std::vector<bool>& unwanted) {
  Plan next = plan;
  next.servers.clear();
  std::vector<uint16_t> index(plan.servers.size());
  for (uint32_t i = 0; i < plan.servers.size(); ++i) {
    index[i] = static_cast<uint16_t>(next.servers.size());
    if (!unwanted[i] || !SlotsOf(plan, {i}).empty()) next.servers.push_back(plan.servers[i]);
  }
  for (uint16_t& owner : next.slot_owner) owner = index[owner];
  return next;
}

Seats::Seats(const LedgerState& ledger, bool live, int64_t now_ms) : live_(live) {
  plan_.version = ledger.plan.version;
  if (!live) return;
  plan_ = ledger.plan;
  seats_.assign(plan_.servers.size(), {false, now_ms});
}

bool Seats::Has(Incarnation server) const { return live_ && HasServer(plan_, server); }

const Plan* Seats::PlanOf(uint32_t version) const {
  if (version == plan_.version) return &plan_;
  const auto found = earlier_.find(version);
  return found == earlier_.end() ? nullptr : &found->second;
}

bool Seats::Switched() const { return plan_.version != GenerationOf(plan_); }

bool Seats::IsOfThisGeneration(uint32_t plan_version) const {
  return plan_version != 0 && IsInGeneration(plan_, plan_version);
}

bool Seats::HadSeat(Incarnation server, uint32_t plan_version) const {
  return live_ && !Has(server) && !gone_.contains(server) && Switched() &&
         IsOfThisGeneration(plan_version);
}

std::vector<size_t> Seats::Vacant(const Roster& roster) const {
  std::vector<size_t> vacant;
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (roster.Find(plan_.servers[i].incarnation) == nullptr) vacant.push_back(i);
  }
  return vacant;
}

Seats::Loss Seats::LossOf(const std::vector<size_t>& vacant, const Roster& roster,
                          int64_t heartbeat_ms, int64_t now_ms) const {
  Loss loss;
  for (const size_t seat : vacant) {
    loss.last_loss_ms = std::max(loss.last_loss_ms, seats_[seat].since_ms);
    loss.all_gone &= IsGone(seat, roster, heartbeat_ms, now_ms);
    loss.one_left |= seats_[seat].left;
  }
  return loss;
}

// Whether nobody waits for the server of a vacant seat any more.
bool Seats::IsGone(size_t seat, const Roster& roster, int64_t heartbeat_ms, int64_t now_ms) const {
  if (seats_[seat].lost) return true;
  const FailureDetector awaited(heartbeat_ms, seats_[seat].since_ms);
  const auto spares = roster.Spares();
  const bool replaced = std::any_of(spares.begin(), spares.end(), [&](const Member* spare) {
    return spare->asked_name == plan_.servers[seat].name;
  });
  return awaited.Dead(now_ms) || (replaced && awaited.Suspect(now_ms));
}

bool Seats::HaveSlots(const std::vector<size_t>& seats) const {
  return std::any_of(seats.begin(), seats.end(), [&](size_t seat) {
    return !SlotsOf(plan_, {static_cast<uint32_t>(seat)}).empty();
  });
}

int64_t Seats::changed_ms() const {
  int64_t changed_ms = 0;
  for (const Seat& seat : seats_) changed_ms = std::max(changed_ms, seat.since_ms);
  return changed_ms;
}

void Seats::Lose(Incarnation server, bool left, int64_t now_ms) {
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (plan_.servers[i].incarnation == server) seats_[i] = {true, now_ms, left};
  }
}

void Seats::Return(Incarnation server, int64_t now_ms) {
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (plan_.servers[i].incarnation == server) seats_[i] = {false, now_ms};
  }
}

void Seats::BeginGeneration(const std::vector<SeatedServer>& servers,
                            std::vector<uint16_t> slot_owner, const std::string& restore,
                            Roster* roster, int64_t now_ms) {
  recoveries_ += live_;
  Plan next;
  next.version = next.generation = plan_.version + 1;
  next.slot_owner = std::move(slot_owner);
  next.restore = restore;
  for (const SeatedServer& seated : servers) next.servers.push_back(seated.server->Seat());
  plan_ = std::move(next);
  earlier_.clear();
  for (Member* server : roster->Of(Role::kServer)) {
    server->seated = HasServer(plan_, server->incarnation);
    server->ready = false;
    server->committed.reset();
  }
  seats_.assign(servers.size(), {false, now_ms});
  gone_.clear();
  lacking_bytes_ = 0;
  live_ = true;
}

void Seats::SwitchTo(Plan next, Roster* roster, int64_t now_ms, Outbox* out) {
  next.generation = GenerationOf(plan_);
  next.version = plan_.version + 1;
  earlier_.insert_or_assign(plan_.version, std::move(plan_));
  if (earlier_.size() > kPlansKept) earlier_.erase(earlier_.begin());
  plan_ = std::move(next);
  out->Record(LedgerPlanned{plan_});
  for (Member* server : roster->Of(Role::kServer)) {
    const bool in_plan = HasServer(plan_, server->incarnation);
    if (server->seated && !in_plan) out->Send(*server, plan_);
    server->seated = in_plan;
    server->ready = false;
  }
  seats_.assign(plan_.servers.size(), {false, now_ms});
  out->SendToSeated(*roster, plan_);
  out->SendToAll(*roster, Role::kWorker, plan_);
}

Plan Seats::GiveUp(const std::vector<size_t>& vacant) {
  std::vector<bool> lost(plan_.servers.size(), false);
  for (const size_t seat : vacant) {
    lost[seat] = true;
    gone_.insert(plan_.servers[seat].incarnation);
  }
  return WithoutEmpty(plan_, lost);
}

bool Seats::SetLacking(uint64_t bytes) { return std::exchange(lacking_bytes_, bytes) != bytes; }

bool Seats::NewcomersProven(const Roster& roster, int64_t now_ms) const {
  if (proven_version_ >= joined_version_) return true;
  const auto workers = roster.Of(Role::kWorker);
  if (workers.empty()) return true;
  // Workers that pause for the plan are idle for a moment.
  return now_ms - joined_ms_ >= kIdleMs &&
         std::none_of(workers.begin(), workers.end(),
                      [](const Member* worker) { return worker->heartbeat.batches_in_flight > 0; });
}

void Seats::CheckInvariants(const Roster& roster, uint32_t slots) const {
  DSLIDE_CHECK(seats_.size() == plan_.servers.size());
  DSLIDE_CHECK(plan_.slot_owner.empty() || plan_.slot_owner.size() == slots);
  DSLIDE_CHECK(GenerationOf(plan_) <= plan_.version);
  DSLIDE_CHECK(live_ || plan_.servers.empty());
  DSLIDE_CHECK(roster.Seated().size() + Vacant(roster).size() == seats_.size());
}

}  // namespace dslide
