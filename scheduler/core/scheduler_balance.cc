// Whether slots should move now: the part of SchedulerCore that asks the balancer and does what it
// decides.
#include "common/run/slot_plan.h"
#include "scheduler/core/scheduler_core.h"
#include "scheduler/members/planned_servers.h"

namespace dslide {

Balancer::View SchedulerCore::ViewLoads() const {
  return {plan_,
          loads_,
          IncarnationsOf(plan_),
          LeavingServers(plan_, roster_),
          roster_.BatchMs(),
          phase_ == Phase::kTraining};
}

double SchedulerCore::Imbalance() const { return Balancer::Imbalance(ViewLoads()); }

std::vector<double> SchedulerCore::RelativeLoads() const {
  if (plan_.servers.empty()) return {};
  return loads_.RelativeLoads(IncarnationsOf(plan_), plan_.slot_owner);
}

void SchedulerCore::TendBalance(int64_t now_ms) {
  // Nobody wants it any more.
  if (now_ms - switch_wanted_ms_ > 3 * balancer_.LookGapMs()) lease_end_.reset();
  if (pause_ && !std::exchange(pause_->wanted, false)) EndPause(now_ms);  // by the look before
  if (AwaitPlanSwitch(now_ms) || !MayMove()) return;
  if (moving_) return AdvanceMoves(now_ms);
  if (!Settled() || !balancer_.Due(pause_.has_value(), now_ms)) return;
  balancer_.BeginLook(now_ms);
  if (const auto newcomers = roster_.Newcomers(); balancer_.on() && !newcomers.empty()) {
    return AddServers(newcomers, now_ms);
  }
  if (ReleaseEmptyServers(now_ms) || !NewcomersProven()) return;
  Balancer::Decision decision = balancer_.Look(ViewLoads(), now_ms);
  if (!decision.line.empty()) out_.DecideOnce(std::move(decision.line), now_ms);
  if (decision.wave) return BeginMoves(*std::move(decision.wave), now_ms);
  if (!decision.uneven || !MaySwitchPlan(now_ms)) return;
  balancer_.OnShared(*decision.uneven);
  out_.Decide(std::move(decision.uneven->line), now_ms);
  SwitchTo(plan_, {}, 0, now_ms);
}

}  // namespace dslide
