// When and where slots move: the part of SchedulerCore that looks at the loads and decides.
//
// A plan comes when staying with the old one has cost as much as the change: in all, at most twice
// what the best moments would cost (the ski rental; Karlin et al.: "Competitive Snoopy Caching",
// Algorithmica 3, 1988). Where plans are dear, noise moves nothing.
#include <fmt/core.h>

#include <algorithm>

#include "common/run/slot_plan.h"
#include "common/run/step.h"
#include "scheduler/core/scheduler_core.h"

namespace dslide {
namespace {

constexpr uint32_t kLooks = 3;         // that find the load uneven, before slots move
constexpr int64_t kLastingMs = 30000;  // that load uneven by half as much is no noise either
constexpr int64_t kSettleMs = 20000;   // after moves, while loads and capacities are learned
constexpr double kIdleShare = 0.5;     // of BatchMs(): what the cluster idles in a hold, about
constexpr double kGapStalls = 3;       // between two plans
constexpr double kGoal = 1.02;
constexpr double kRest = 1.04;  // once slots move they go on moving above this

}  // namespace

bool SchedulerCore::CapacitiesMeasured() const {
  const std::vector<Incarnation> servers = PlanIncarnations();
  return std::all_of(servers.begin(), servers.end(),
                     [&](Incarnation s) { return loads_.CapacityMeasured(s); });
}

double SchedulerCore::Imbalance() const {
  if (plan_.servers.empty()) return 1;
  return loads_.Imbalance(PlanIncarnations(), plan_.slot_owner);
}

std::vector<double> SchedulerCore::RelativeLoads() const {
  if (plan_.servers.empty()) return {};
  return loads_.RelativeLoads(PlanIncarnations(), plan_.slot_owner);
}

BalancePlan SchedulerCore::PlanMoves(const BalanceOptions& options) const {
  return PlanBalance(loads_.Owners(PlanIncarnations(), LeavingServers()),
                     loads_.Slots(plan_.slot_owner, plan_.servers.size()), options);
}

// Until the loads may be others, and for pauses not to be most of the time.
int64_t SchedulerCore::LookGapMs() const {
  return std::max<int64_t>(inputs_.config.cluster.heartbeat_ms,
                           static_cast<int64_t>(last_stall_us_ / 1000 * kGapStalls));
}

// From the first request of a batch to its last answer: the median of what workers say was the
// longest, 0 if nobody has. The cluster needs as long for all that is in flight (Little's law).
double SchedulerCore::BatchMs() const {
  std::vector<uint32_t> longest_us;
  for (const Member* worker : roster_.Of(Role::kWorker)) {
    if (worker->batch_us > 0) longest_us.push_back(worker->batch_us);
  }
  if (longest_us.empty()) return 0;
  const auto middle = longest_us.begin() + static_cast<std::ptrdiff_t>((longest_us.size() - 1) / 2);
  std::nth_element(longest_us.begin(), middle, longest_us.end());
  return *middle / 1000.0;
}

void SchedulerCore::TendBalance(int64_t now_ms) {
  if (now_ms - switch_wanted_ms_ > 3 * LookGapMs()) lease_end_.reset();  // nobody wants it any more
  if (pause_ && !std::exchange(pause_->wanted, false)) EndPause(now_ms);  // by the look before
  if (AwaitPlanSwitch(now_ms) || !MayMove()) return;
  if (moving_) return AdvanceMoves(now_ms);
  const int64_t gap_ms = LookGapMs();
  const bool looked = now_ms - balanced_ms_ < gap_ms || now_ms - switched_ms_ < gap_ms;
  if (!Settled() || (looked && !pause_)) return;
  const int64_t since_ms = now_ms - std::max(balanced_ms_, switched_ms_);
  balanced_ms_ = now_ms;
  const bool on = inputs_.config.cluster.balance != Balance::kOff;
  if (const auto newcomers = roster_.Newcomers(); on && !newcomers.empty()) {
    return AddServers(newcomers, now_ms);
  }
  if (ReleaseEmptyServers(now_ms) || !NewcomersProven()) return;

  const bool by_load = on && !IsSynchronous(inputs_.config.train);
  BalanceOptions options;
  const double threshold = inputs_.config.cluster.balance_threshold;
  options.goal = std::min(kGoal, threshold);
  options.byte_budget = WaveBytes();
  const bool measured = phase_ == Phase::kTraining && CapacitiesMeasured();
  constexpr double kNever = 1e9;
  const double rest = std::min(kRest, threshold);
  if (!measured || Imbalance() <= rest) even_ms_ = now_ms;
  const bool lasting =
      Imbalance() > (1 + threshold) / 2 && now_ms - std::max(even_ms_, switched_ms_) >= kLastingMs;
  const bool go_on = balancing_ || (by_load && lasting);
  options.threshold = go_on ? rest : by_load && measured ? threshold : kNever;
  BalancePlan plan = PlanMoves(options);
  if (plan.moves.empty() && plan.obstacle == BalanceObstacle::kBudget) {
    options.byte_budget = plan.lacking_bytes;  // no smaller step helps
    plan = PlanMoves(options);
  }
  const auto leaving = LeavingServers();
  const bool must = std::find(leaving.begin(), leaving.end(), true) != leaving.end();
  if (plan.moves.empty()) {
    const bool settled = now_ms - moved_ms_ >= kSettleMs;
    if (must || (balancing_ && settled)) NoteBalanced(plan, now_ms);
    if (settled) {
      balancing_ = false;
      lost_ms_ = 0;
    }
    unbalanced_looks_ = 0;
    if (lasting) even_ms_ = now_ms;  // nothing helps
    return BalanceWithin(now_ms);
  }
  if (!on && !must) return;
  const auto looked_ms = static_cast<double>(std::min(since_ms, 2 * gap_ms));
  lost_ms_ += std::max(0.0, 1 - options.goal / plan.before) * looked_ms;
  if (!must && lost_ms_ < last_stall_us_ / 1000 + kIdleShare * BatchMs()) return;
  if (!balancing_ && !must && ++unbalanced_looks_ < kLooks) return;
  if (!balancing_ && !must) {
    NoteDecision(fmt::format("slots move: the busiest server has {:.2f} times the mean load over "
                             "capacity, {:.2f} is the goal",
                             plan.before, options.goal),
                 now_ms);
  }
  balancing_ = on;
  BeginMoves(plan, now_ms);
}

void SchedulerCore::NoteBalanced(const BalancePlan& plan, int64_t now_ms) {
  std::string line =
      fmt::format("slots rest: the busiest server has {:.2f} times the mean load", plan.after);
  if (const std::string why = ObstacleText(plan, "server"); !why.empty()) line += "; " + why;
  if (decisions_.empty() || decisions_.back().text != line) NoteDecision(std::move(line), now_ms);
}

// Executors of one server share its slots anew with every plan.
void SchedulerCore::BalanceWithin(int64_t now_ms) {
  if (inputs_.config.cluster.balance == Balance::kOff || IsSynchronous(inputs_.config.train) ||
      !CanSwitchPlan()) {
    return;
  }
  constexpr double kWorse = 1.1;  // than what the last attempt began with
  for (const PlanServer& server : plan_.servers) {
    const double skew = loads_.ExecutorSkew(server.incarnation);
    double& tried = inner_skew_[server.incarnation];
    if (skew < inputs_.config.cluster.balance_threshold || skew < kWorse * tried) continue;
    if (!MaySwitchPlan(now_ms)) return;
    tried = skew;
    NoteDecision(fmt::format("{}: slots change executors, the busiest has {:.2f} times the mean",
                             server.name, skew),
                 now_ms);
    return SwitchTo(plan_, {}, 0, now_ms);
  }
}

}  // namespace dslide
