#include "scheduler/balance/balancer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

constexpr uint32_t kLooks = 3;         // that find the load uneven, before slots move
constexpr int64_t kLastingMs = 30000;  // after which half as uneven a load is no noise either
constexpr int64_t kSettleMs = 20000;   // after moves, while loads and capacities are learned
constexpr double kIdleShare = 0.5;  // of a batch's time: what the cluster idles in a pause, about
constexpr double kGapStalls = 3;    // between two plans
constexpr double kGoal = 1.02;
constexpr double kRest = 1.04;               // once slots move they go on moving above this
constexpr double kNever = 1e9;               // a threshold that no load reaches
constexpr double kWorse = 1.1;               // than the skew that the last attempt began with
constexpr int64_t kMovePatienceMs = 600000;  // for all copies of a wave, at least
constexpr double kLeastWaveBytes = 64 << 10;
constexpr double kLargestWaveBytes = 256 << 20;
constexpr double kStallGoalUs = 50'000;
constexpr double kStallShare = 0.25;  // of what the batches in flight take, if that is more
static_assert(kGoal < kRest);         // else slots that rest would move again
static_assert(kRest < kBalanceThreshold);
static_assert(kLeastWaveBytes < kLargestWaveBytes);

bool AnyLeaves(const std::vector<bool>& leaving) {
  return std::find(leaving.begin(), leaving.end(), true) != leaving.end();
}

}  // namespace

Balancer::Balancer(const Config& config)
    : cluster_(config.cluster), synchronous_(IsSynchronous(config.train)) {}

int64_t Balancer::LookGapMs() const {
  return std::max<int64_t>(cluster_.heartbeat_ms,
                           static_cast<int64_t>(last_stall_us_ / 1000 * kGapStalls));
}

bool Balancer::Due(bool paused, int64_t now_ms) const {
  const int64_t gap_ms = LookGapMs();
  return paused || (now_ms - looked_ms_ >= gap_ms && now_ms - switched_ms_ >= gap_ms);
}

void Balancer::BeginLook(int64_t now_ms) {
  unseen_ms_ = now_ms - std::max(looked_ms_, switched_ms_);
  looked_ms_ = now_ms;
}

BalancePlan Balancer::PlanMoves(const View& view, const BalanceOptions& options) {
  return PlanBalance(view.loads.Owners(view.servers, view.leaving),
                     view.loads.Slots(view.plan.slot_owner, view.servers.size()), options);
}

double Balancer::Imbalance(const View& view) {
  return view.servers.empty() ? 1 : view.loads.Imbalance(view.servers, view.plan.slot_owner);
}

Balancer::Decision Balancer::Look(const View& view, int64_t now_ms) {
  const bool measured = view.training && view.loads.CapacitiesMeasured(view.servers);
  const double imbalance = Imbalance(view);
  if (!measured || imbalance <= kRest) even_ms_ = now_ms;
  const bool lasting = imbalance > (1 + kBalanceThreshold) / 2 &&
                       now_ms - std::max(even_ms_, switched_ms_) >= kLastingMs;
  const BalancePlan plan = PlanWave(view, measured, lasting);
  if (plan.moves.empty()) return Rest(view, plan, lasting, now_ms);

  const bool must = AnyLeaves(view.leaving);
  if (!on() && !must) return {};
  const auto unseen_ms = static_cast<double>(std::min(unseen_ms_, 2 * LookGapMs()));
  lost_ms_ += std::max(0.0, 1 - kGoal / plan.before) * unseen_ms;
  if (!must && lost_ms_ < last_stall_us_ / 1000 + kIdleShare * view.batch_ms) return {};
  if (!balancing_ && !must && ++unbalanced_looks_ < kLooks) return {};
  Decision decision;
  if (!balancing_ && !must) {
    decision.event.emplace(
        event::kSlotsMove,
        fmt::format("slots move: the busiest server's load over capacity is {:.2f} times the mean; "
                    "the goal is {:.2f}",
                    plan.before, kGoal),
        std::vector<EventField>{{"imbalance", plan.before}, {"goal", kGoal}});
  }
  balancing_ = on();
  moved_ms_ = now_ms;
  decision.wave = WaveOf(plan);
  return decision;
}

// `lasting`: the load has been uneven for kLastingMs, so it is no noise.
BalancePlan Balancer::PlanWave(const View& view, bool measured, bool lasting) const {
  BalanceOptions options;
  options.goal = kGoal;
  options.byte_budget = WaveBytes(view);
  if (balancing_ || (ByLoad() && lasting)) {
    options.threshold = kRest;
  } else {
    options.threshold = ByLoad() && measured ? kBalanceThreshold : kNever;
  }
  BalancePlan plan = PlanMoves(view, options);
  if (plan.moves.empty() && plan.obstacle == BalanceObstacle::kBudget) {
    options.byte_budget = plan.lacking_bytes;  // no smaller step helps
    plan = PlanMoves(view, options);
  }
  return plan;
}

// Nothing moves between servers. `plan` says why.
Balancer::Decision Balancer::Rest(const View& view, const BalancePlan& plan, bool lasting,
                                  int64_t now_ms) {
  Decision decision;
  const bool settled = now_ms - moved_ms_ >= kSettleMs;
  if (AnyLeaves(view.leaving) || (balancing_ && settled)) {
    const std::string why = ObstacleText(plan, "server");
    decision.event.emplace(
        event::kSlotsRest,
        fmt::format("no more slots move: the busiest server has {:.2f} times the mean load{}{}",
                    plan.after, why.empty() ? "" : "; ", why),
        std::vector<EventField>{{"imbalance", plan.after}});
  }
  if (settled) {
    balancing_ = false;
    lost_ms_ = 0;
  }
  unbalanced_looks_ = 0;
  if (lasting) even_ms_ = now_ms;  // no move helps
  if (ByLoad()) decision.uneven = FindUneven(view);
  return decision;
}

SlotWave Balancer::WaveOf(const BalancePlan& plan) const {
  SlotWave wave;
  wave.moves = plan.moves;
  wave.copied_before = static_cast<double>(plan.bytes) > wave_bytes_ || cluster_.move_mbit != 0;
  wave.bytes_per_second = static_cast<uint64_t>(MoveBytesPerMs() * 1000);
  wave.patience_ms = kMovePatienceMs;
  if (MoveBytesPerMs() > 0) {
    const double least_ms = static_cast<double>(plan.bytes) / MoveBytesPerMs();
    wave.patience_ms = std::max(kMovePatienceMs, static_cast<int64_t>(2 * least_ms));
  }
  return wave;
}

// Every plan makes the executors of a server share its slots again.
std::optional<Balancer::UnevenServer> Balancer::FindUneven(const View& view) const {
  for (const PlanServer& server : view.plan.servers) {
    const double skew = view.loads.ExecutorSkew(server.incarnation);
    const auto tried = shared_at_skew_.find(server.incarnation);
    const double least = tried == shared_at_skew_.end() ? 0 : kWorse * tried->second;
    if (skew < kBalanceThreshold || skew < least) continue;
    return UnevenServer{
        server.incarnation,
        skew,
        {event::kSlotsShared,
         fmt::format("{}: slots change executors, the busiest has {:.2f} times the mean",
                     server.name, skew),
         {{"server", server.name}, {"skew", skew}}}};
  }
  return std::nullopt;
}

// What cluster.move_mbit lets a server receive; 0: no limit.
double Balancer::MoveBytesPerMs() const { return cluster_.move_mbit * 1e6 / 8 / 1000; }

// Of all slots that one plan moves at most, all to one server in the worst case; one slot always
// may.
uint64_t Balancer::WaveBytes(const View& view) const {
  const double in_time =
      MoveBytesPerMs() > 0 ? MoveBytesPerMs() * kMovePatienceMs / 2 : kLargestWaveBytes;
  uint64_t largest = 1;
  for (uint32_t slot = 0; slot < view.plan.slot_owner.size(); ++slot) {
    largest = std::max(largest, view.loads.SlotBytes(slot));
  }
  return std::max(largest, static_cast<uint64_t>(std::min(wave_bytes_, in_time)));
}

// A pause has a part that does not depend on what moves: what servers have before them when the
// plan comes. Smaller waves than that allows only make more pauses, and each costs the batches in
// flight.
void Balancer::Learn(const PlanSwitchReport& report, int64_t now_ms) {
  switched_ms_ = now_ms;
  lost_ms_ = 0;
  totals_.plans++;
  totals_.slots += report.slots;
  totals_.bytes += report.bytes;
  totals_.slot_bytes += report.slot_bytes;
  totals_.longest_stall_us = std::max(totals_.longest_stall_us, report.stall_us);
  constexpr double kForget = 1.2;
  const double stall_us = std::max(1.0, static_cast<double>(report.stall_us));
  least_stall_us_ = least_stall_us_ == 0 ? stall_us : std::min(stall_us, kForget * least_stall_us_);
  last_stall_us_ = stall_us;
  if (report.slots == 0) return;
  const double goal_us =
      std::max({kStallGoalUs, 2 * least_stall_us_, kStallShare * 1000 * report.batch_ms});
  const double change = std::clamp(goal_us / stall_us, 0.5, 4.0);
  wave_bytes_ = std::clamp(change * wave_bytes_, kLeastWaveBytes, kLargestWaveBytes);
}

uint32_t Balancer::DisturbedReports(const PlanSwitchReport& report) const {
  if (report.slots == 0) return 0;
  const double stall_us = std::max(1.0, static_cast<double>(report.stall_us));
  const double again_ms = report.unpaused > 0 ? report.batch_ms : 0;
  const double disturbed_ms = 2 * (again_ms + stall_us / 1000);
  return static_cast<uint32_t>(
      std::min(std::ceil(disturbed_ms / cluster_.heartbeat_ms), double{SlotLoads::kWarmUpReports}));
}

void Balancer::Keep(const std::set<Incarnation>& servers) {
  std::erase_if(shared_at_skew_, [&](const auto& e) { return !servers.contains(e.first); });
}

void Balancer::CheckInvariants() const {
  DSLIDE_CHECK(!balancing_ || on());
  DSLIDE_CHECK(wave_bytes_ >= kLeastWaveBytes && wave_bytes_ <= kLargestWaveBytes);
  DSLIDE_CHECK(lost_ms_ >= 0);
  DSLIDE_CHECK(least_stall_us_ <= last_stall_us_);
}

}  // namespace dslide
