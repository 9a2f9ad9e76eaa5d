#include "scheduler/core/generation.h"

namespace dslide {

bool Generation::GiveLease(const Request& request, const RunContext& run, const Roster& roster,
                           const Offences& offences, int64_t now_ms, Advisor* advisor,
                           Outbox* out) {
  const bool slowed = offences.IsSlowed(request.worker, now_ms);
  if (slowed) {
    const auto last = slowed_leases_ms.find(Offences::IdentityOf(request.worker));
    if (last != slowed_leases_ms.end() && now_ms - last->second < kSlowedLeaseMs) return false;
  }
  Pass::Applicant applicant;
  applicant.worker = request.worker;
  applicant.has_data = request.has_data;
  const bool doubted = slowed || offences.IsDoubted(request.worker, now_ms);
  applicant.batches = doubted ? 1 : advisor->LeaseBatches(request.worker);
  applicant.workers = roster.Count(Role::kWorker);
  applicant.speed = [&](Incarnation holder) { return advisor->BatchesPerSecond(holder, now_ms); };
  auto grant = pass.Lease(run, applicant, now_ms);
  if (!grant) return false;
  if (slowed) {
    std::erase_if(slowed_leases_ms,
                  [&](const auto& lease) { return now_ms - lease.second > Offences::kSlowMs; });
    slowed_leases_ms[Offences::IdentityOf(request.worker)] = now_ms;
  }
  advisor->OnLease(request.worker, now_ms);
  out->Reply(roster.Find(request.worker)->peer, request.sequence, *std::move(grant));
  return true;
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
