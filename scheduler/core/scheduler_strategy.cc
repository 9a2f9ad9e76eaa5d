// What every node should do, and whether hash tables are built anew: the part of SchedulerCore that
// decides from what was measured, and says why.
#include <fmt/core.h>

#include <algorithm>

#include "common/run/step.h"
#include "scheduler/balance/table_health.h"
#include "scheduler/core/scheduler_core.h"

namespace dslide {
namespace {

constexpr int64_t kDecideMs = 5000;
constexpr int64_t kDecideFirstMs = 500;  // where a worker's speed has come to be known
constexpr size_t kDecisionsKept = 50;

}  // namespace

void SchedulerCore::NoteDecision(std::string line, int64_t now_ms) {
  Notice(line);
  decisions_.push_back({now_ms, std::move(line)});
  if (decisions_.size() > kDecisionsKept) decisions_.pop_front();
}

// Where the buckets of a server's tables no longer tell neurons apart all servers draw new hash
// functions: slots then keep their codes when they move. Not in synchronous training, whose result
// would depend on when they do.
void SchedulerCore::RenewTables(const Member& server, int64_t now_ms) {
  if (phase_ != Phase::kTraining || IsSynchronous(inputs_.config.train)) return;
  const auto better =
      BetterTables(server.heartbeat, inputs_.config.hash, inputs_.config.model.hidden);
  if (!better) return;
  if (better->round > hash_round_) {
    NoteDecision(fmt::format("hash tables are built anew with {} hashes each: at {} the largest "
                             "bucket has {} neurons, the mean is {:.1f}",
                             better->k, server.name, server.heartbeat.bucket_largest,
                             server.heartbeat.bucket_mean),
                 now_ms);
    BroadcastToSeated(*better);
  } else {
    Send(server, *better);  // it came later, or the message was lost
  }
  hash_round_ = std::max(hash_round_, better->round);
}

double SchedulerCore::BatchesPerSecond(Incarnation worker, int64_t now_ms) const {
  const auto found = speeds_.find(worker);
  return found == speeds_.end() ? 0.0 : found->second.Rate(now_ms);
}

void SchedulerCore::ForgetTheGone() {
  std::erase_if(speeds_, [&](const auto& e) { return roster_.Find(e.first) == nullptr; });
  const std::vector<Incarnation> planned = PlanIncarnations();
  std::set<Incarnation> servers(planned.begin(), planned.end());
  for (const Member* server : roster_.Of(Role::kServer)) servers.insert(server->incarnation);
  loads_.Keep(servers);
  std::erase_if(inner_skew_, [&](const auto& e) { return !servers.contains(e.first); });
}

// What every node should do, from what was measured of it (strategy.h).
void SchedulerCore::Decide(int64_t now_ms) {
  if (!InPass() || !book_) return;
  const bool is_new = std::any_of(speeds_.begin(), speeds_.end(), [&](const auto& speed) {
    return !worker_decisions_.contains(speed.first) && roster_.Find(speed.first) != nullptr &&
           speed.second.Rate(now_ms) > 0;
  });
  const int64_t gap_ms = is_new ? kDecideFirstMs : kDecideMs;
  if (now_ms - decided_ms_ < gap_ms) return;
  decided_ms_ = now_ms;
  const double batch = inputs_.config.train.batch;
  const double bytes = batch * (work_.BytesSentPerSample() + work_.BytesReceivedPerSample());
  const auto seated = roster_.Seated();
  const bool servers_pause =
      !Settled() || std::any_of(seated.begin(), seated.end(),
                                [&](const Member* server) { return server->life.Suspect(now_ms); });
  std::map<Incarnation, OpenLease> oldest;  // by holder; they come in the order of their ages
  for (const OpenLease& lease : book_->OpenLeases()) oldest.try_emplace(lease.holder, lease);
  std::vector<WorkerMeasure> workers;
  const std::vector<const Member*> members = std::as_const(roster_).Of(Role::kWorker);
  for (const Member* member : members) {
    WorkerMeasure worker;
    worker.name = member->name;
    worker.cores = member->cores;
    worker.batches_per_second = BatchesPerSecond(member->incarnation, now_ms);
    worker.round_trip_us = member->heartbeat.round_trip_us;
    worker.bits_per_second = member->heartbeat.bits_per_second;
    worker.bytes_per_batch = bytes;
    if (const auto held = oldest.find(member->incarnation); held != oldest.end()) {
      worker.lease_age_s = static_cast<double>(now_ms - held->second.granted_ms) / 1000;
      worker.lease_size = held->second.granted;
    }
    if (servers_pause) worker.lease_age_s = 0;  // not its fault
    workers.push_back(std::move(worker));
  }
  std::vector<ServerMeasure> servers;
  const std::vector<bool> leaving = LeavingServers();
  for (size_t i = 0; i < plan_.servers.size(); ++i) {
    const PlanServer& server = plan_.servers[i];
    if (roster_.Find(server.incarnation) == nullptr) return;
    servers.push_back({server.name, loads_.Capacity(server.incarnation), leaving[i]});
  }
  RunMeasure run;
  run.unit_batches = inputs_.config.train.unit_batches;
  run.batches_left = book_->batches() - book_->done();
  run.seconds_per_batch = loads_.SecondsPerBatch(PlanIncarnations(), plan_.slot_owner);
  strategy_now_ = strategy_.Decide(workers, servers, run);
  worker_decisions_.clear();
  for (size_t i = 0; i < members.size(); ++i) {
    const WorkerDecision& decision = strategy_now_.workers[i];
    if (workers[i].batches_per_second > 0) {
      worker_decisions_[members[i]->incarnation] = decision;
    }
    if (decision.log) NoteDecision(decision.reason, now_ms);
  }
  const bool measured = CapacitiesMeasured();
  for (const ServerDecision& decision : strategy_now_.servers) {
    if (decision.log && measured) NoteDecision(decision.reason, now_ms);
  }
  ForgetTheGone();
}

}  // namespace dslide
