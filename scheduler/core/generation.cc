#include "scheduler/core/generation.h"

namespace dslide {

bool Generation::GiveLease(const Request& request, const RunContext& run, const Roster& roster,
                           const Offences& offences, int64_t now_ms, Advisor* advisor,
                           Outbox* out) {
  const bool is_doubted = offences.IsDoubted(request.worker, now_ms);
  bool slowed = offences.IsSlowed(request.worker, now_ms);
  const uint32_t identity = Offences::IdentityOf(request.worker);
  if (const auto last = watched.find(identity); last != watched.end()) {
    slowed |= is_doubted && last->second.in_vain >= kMostInVain;
    if (slowed && now_ms - last->second.leased_ms < kSlowedLeaseMs) return false;
  }
  Pass::Applicant applicant;
  applicant.worker = request.worker;
  applicant.has_data = request.has_data;
  applicant.batches = slowed || is_doubted ? 1 : advisor->LeaseBatches(request.worker);
  applicant.workers = roster.Count(Role::kWorker);
  applicant.speed = [&](Incarnation holder) { return advisor->BatchesPerSecond(holder, now_ms); };
  auto grant = pass.Lease(run, applicant, now_ms);
  if (!grant) return false;
  if (slowed || is_doubted) {
    std::erase_if(watched, [&](const auto& entry) {
      return now_ms - entry.second.leased_ms > Offences::kSlowMs;
    });
    Watched& lease = watched[identity];
    lease.leased_ms = now_ms;
    lease.in_vain++;
  }
  advisor->OnLease(request.worker, now_ms);
  out->Reply(roster.Find(request.worker)->peer, request.sequence, *std::move(grant));
  return true;
}

void Generation::NoteBatch(Incarnation worker) {
  const auto found = watched.find(Offences::IdentityOf(worker));
  if (found != watched.end()) found->second.in_vain = 0;
}

void Generation::ServePending(const RunContext& run, const Roster& roster, const Offences& offences,
                              int64_t now_ms, Advisor* advisor, Outbox* out) {
  const Pass::Supply supply = pass.SupplyNow(run);
  const auto lasts_ms = static_cast<int64_t>(pending.size() / 100);
  if (supply == served && now_ms - served_ms < lasts_ms) return;
  served = supply;
  served_ms = now_ms;
  std::erase_if(pending, [&](const Request& request) {
    return roster.Find(request.worker) == nullptr ||
           GiveLease(request, run, roster, offences, now_ms, advisor, out);
  });
}

void Generation::Forget(Incarnation worker) {
  std::erase_if(pending, [&](const Request& request) { return request.worker == worker; });
}

void Generation::CancelChange(const Roster& roster, Outbox* out) {
  change.Cancel(roster, out);
  pass.ReleaseSteps();
}

}  // namespace dslide
