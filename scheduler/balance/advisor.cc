#include "scheduler/balance/advisor.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/check.h"
#include "scheduler/balance/table_health.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

constexpr int64_t kDecideMs = 5000;
constexpr int64_t kDecideFirstMs = 500;  // for a worker whose speed has become known
static_assert(kDecideFirstMs < kDecideMs);

}  // namespace

void Advisor::OnBatch(Incarnation worker, int64_t now_ms) {
  // A worker without a clock has its lease from an earlier life of the scheduler: the clock begins
  // now.
  const auto [speed, is_new] = speeds_.try_emplace(worker, now_ms);
  if (!is_new) speed->second.Add(1, now_ms);
}

double Advisor::BatchesPerSecond(Incarnation worker, int64_t now_ms) const {
  const auto found = speeds_.find(worker);
  return found == speeds_.end() ? 0.0 : found->second.Rate(now_ms);
}

bool Advisor::Due(const Roster& roster, int64_t now_ms) const {
  const bool is_new = std::any_of(speeds_.begin(), speeds_.end(), [&](const auto& speed) {
    return !by_worker_.contains(speed.first) && roster.Find(speed.first) != nullptr &&
           speed.second.Rate(now_ms) > 0;
  });
  return now_ms - decided_ms_ >= (is_new ? kDecideFirstMs : kDecideMs);
}

void Advisor::Decide(const Roster& roster, const Measures& measures, int64_t now_ms, Outbox* out) {
  decided_ms_ = now_ms;
  std::map<Incarnation, OpenLease> oldest;  // the first of a holder is its oldest
  for (const OpenLease& lease : measures.leases) oldest.try_emplace(lease.holder, lease);
  const std::vector<const Member*> members = roster.Of(Role::kWorker);
  std::vector<WorkerMeasure> workers;
  for (const Member* member : members) {
    workers.push_back(Measure(*member, measures, oldest, now_ms));
  }
  decisions_ = strategy_.Decide(workers, measures.servers, measures.run);
  by_worker_.clear();
  for (size_t i = 0; i < members.size(); ++i) {
    const WorkerDecision& decision = decisions_.workers[i];
    if (workers[i].batches_per_second > 0) by_worker_[members[i]->incarnation] = decision;
    if (!decision.log) continue;
    out->Tune({event::kLeaseSize,
               decision.reason,
               {{"worker", members[i]->name},
                {"lease_batches", decision.lease_batches},
                {"in_flight_cap", decision.in_flight_cap}}},
              now_ms);
  }
  for (const ServerDecision& decision : decisions_.servers) {
    if (decision.log && measures.capacities_measured) {
      out->Tune({event::kBalanceShare,
                 decision.reason,
                 {{"server", decision.name}, {"share", decision.share}}},
                now_ms);
    }
  }
  std::erase_if(speeds_, [&](const auto& speed) { return roster.Find(speed.first) == nullptr; });
}

WorkerMeasure Advisor::Measure(const Member& worker, const Measures& measures,
                               const std::map<Incarnation, OpenLease>& oldest_leases,
                               int64_t now_ms) const {
  WorkerMeasure measure;
  measure.name = worker.name;
  measure.cores = worker.cores;
  measure.batches_per_second = BatchesPerSecond(worker.incarnation, now_ms);
  measure.round_trip_us = worker.heartbeat.round_trip_us;
  measure.bits_per_second = worker.heartbeat.bits_per_second;
  measure.bytes_per_batch = measures.bytes_per_batch;
  if (const auto held = oldest_leases.find(worker.incarnation); held != oldest_leases.end()) {
    measure.lease_age_s = static_cast<double>(now_ms - held->second.granted_ms) / 1000;
    measure.lease_size = held->second.granted;
  }
  if (measures.servers_pause) measure.lease_age_s = 0;
  return measure;
}

uint32_t Advisor::LeaseBatches(Incarnation worker) const {
  const auto found = by_worker_.find(worker);
  return found == by_worker_.end() ? Strategy::kFirstLease : found->second.lease_batches;
}

uint32_t Advisor::InFlightCap(Incarnation worker) const {
  const auto found = by_worker_.find(worker);
  return found == by_worker_.end() ? 0 : found->second.in_flight_cap;
}

HeartbeatReply Advisor::OrdersFor(const Member& member, uint32_t pause_ms) const {
  HeartbeatReply orders;
  orders.in_flight_cap = InFlightCap(member.incarnation);
  if (member.role == Role::kWorker) orders.pause_ms = pause_ms;
  return orders;
}

void Advisor::SendOrders(const Roster& roster, uint32_t pause_ms, Outbox* out) const {
  for (const Member* worker : roster.Of(Role::kWorker)) {
    out->Send(*worker, OrdersFor(*worker, pause_ms));
  }
}

void Advisor::RenewTables(const Member& server, const Config& config, const Roster& roster,
                          int64_t now_ms, Outbox* out) {
  if (IsSynchronous(config.train)) return;  // what a batch gives must not depend on the time
  const auto better = BetterTables(server.heartbeat, config.hash, OutputWidth(config.model));
  if (!better) return;
  if (better->round > hash_round_) {
    const Heartbeat& at = server.heartbeat;
    out->Decide(
        {event::kTablesRenewed,
         fmt::format("hash tables are built anew with {} hashes each: at {} the largest "
                     "bucket has {} neurons, the mean is {:.1f}",
                     better->k, server.name, at.bucket_largest, at.bucket_mean),
         {{"hashes", better->k}, {"server", server.name}, {"largest_bucket", at.bucket_largest}}},
        now_ms);
    out->SendToSeated(roster, *better);
  } else {
    out->Send(server, *better);  // it came later, or the message was lost
  }
  hash_round_ = std::max(hash_round_, better->round);
}

void Advisor::CheckInvariants() const {
  DSLIDE_CHECK(hash_round_ <= kMaxHashRounds);
  for (const auto& [worker, decision] : by_worker_) DSLIDE_CHECK(decision.lease_batches > 0);
}

}  // namespace dslide
