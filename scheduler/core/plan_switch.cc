#include "scheduler/core/plan_switch.h"

#include <utility>

namespace dslide {

void SwitchTo(RunState* run, Plan next, int64_t now_ms) {
  run->pass().OnPlanSwitch();
  run->change().BeginSwitch(run->plan(), now_ms);
  run->pass().ReleaseSteps();
  run->cluster.seats.SwitchTo(std::move(next), &run->cluster.roster, now_ms, &run->out);
}

void OnTakenUp(RunState* run, const Ready& ready, int64_t now_ms) {
  const auto report = run->change().OnReady(ready, run->plan(), run->roster(), &run->out);
  if (!report) return;
  run->balancer.Learn(*report, now_ms);
  const uint32_t disturbed = run->balancer.DisturbedReports(*report);
  for (const PlanServer& server : run->plan().servers) {
    run->cluster.loads.WarmUp(server.incarnation, disturbed);
  }
  for (const Member* server : run->roster().Seated()) run->pass().CommitAgain(*server, &run->out);
}

}  // namespace dslide
