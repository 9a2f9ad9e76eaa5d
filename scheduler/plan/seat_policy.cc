#include "scheduler/plan/seat_policy.h"

#include <fmt/core.h>

#include <algorithm>

namespace dslide {
namespace {

using Kind = SeatDecision::Kind;

constexpr int64_t kStopPatienceMs = 10000;  // for a server that fell silent during a stop
constexpr int64_t kReadyMs = 20000;         // for the others, where one without slots was lost

int64_t JoinTimeoutMs(const SeatSituation& now) {
  return int64_t{1000} * now.config.cluster.join_timeout_s;
}

// A generation with these servers if their memory suffices for all slots; else more have to come.
SeatDecision TryServers(const SeatSituation& now, std::vector<SeatedServer> servers) {
  const Cluster& cluster = now.cluster;
  Placement placement =
      Place(servers, cluster.seats.plan(), now.checkpoint, cluster.loads, now.config.cluster.slots);
  SeatDecision decision;
  decision.lacking_bytes = placement.lacking_bytes;
  if (placement.lacking_bytes > 0) return decision;
  decision.kind = Kind::kBegin;
  decision.servers = std::move(servers);
  decision.slot_owner = std::move(placement.slot_owner);
  return decision;
}

// Before the first plan. Where memory is lacking all spares take part.
SeatDecision GatherServers(const SeatSituation& now, int64_t now_ms) {
  const size_t wanted = now.config.cluster.servers;
  const size_t spares = now.cluster.roster.Spares().size();
  SeatDecision decision;
  if (spares >= wanted) {
    const size_t most = now.cluster.seats.lacking_bytes() == 0 ? wanted : spares;
    decision = TryServers(now, ChooseFirstServers(now.cluster.roster, most));
  }
  if (decision.kind == Kind::kWait && now_ms - now.started_ms > JoinTimeoutMs(now)) {
    decision.kind = Kind::kNotEnough;
  }
  return decision;
}

// All seats have their servers. One server that does not load its slots holds up all others: they
// wait for it until cluster.join_timeout_s after the last of them was ready.
SeatDecision AwaitReady(const SeatSituation& now, int64_t now_ms) {
  SeatDecision decision;
  decision.lacking_bytes = 0;
  if (now.in_pass) return decision;
  if (now.cluster.roster.AllReady()) {
    decision.kind = Kind::kGo;
    return decision;
  }
  int64_t since_ms = now.cluster.seats.changed_ms();
  for (const Member* server : now.cluster.roster.Seated()) {
    if (server->ready) since_ms = std::max(since_ms, server->ready_ms);
  }
  if (now_ms - since_ms <= JoinTimeoutMs(now)) return decision;
  decision.kind = Kind::kLeaveOut;
  decision.why = fmt::format("has not loaded its slots within {} s of the others",
                             now.config.cluster.join_timeout_s);
  return decision;
}

// Decides whether the other servers continue without the lost ones at once, or when they are
// ready. Returns nullopt if they cannot.
std::optional<Kind> WithoutThem(const SeatSituation& now, int64_t waited_ms) {
  const bool soon = waited_ms < kReadyMs;
  if (!now.cluster.roster.AllReady()) return soon ? std::optional(Kind::kWait) : std::nullopt;
  return now.writing && soon ? Kind::kWait : Kind::kGoOnWithout;
}

SeatDecision ReplaceLost(const SeatSituation& now, std::vector<size_t> vacant, int64_t now_ms) {
  const ClusterConfig& cluster = now.config.cluster;
  const Seats& seats = now.cluster.seats;
  const Seats::Loss loss = seats.LossOf(vacant, now.cluster.roster, cluster.heartbeat_ms, now_ms);
  const int64_t waited_ms = now_ms - loss.last_loss_ms;
  SeatDecision decision;
  if (now.stopping && (loss.one_left || waited_ms > kStopPatienceMs)) {
    decision.kind = Kind::kStop;
    return decision;
  }
  if (!loss.all_gone) return decision;
  LossOptions options = now.cluster.OptionsAfterLoss();
  const auto without = options.without_them ? WithoutThem(now, waited_ms) : std::nullopt;
  if (without) {
    decision.kind = *without;
    decision.vacant = std::move(vacant);
    return decision;
  }
  const bool takeover = cluster.takeover_s > 0 && waited_ms >= int64_t{1000} * cluster.takeover_s;
  if (!options.servers.empty() && (options.enough || takeover)) {
    decision = TryServers(now, std::move(options.servers));
  }
  if (decision.kind == Kind::kWait && waited_ms > JoinTimeoutMs(now)) {
    decision.kind = Kind::kNotReplaced;
    decision.vacant = std::move(vacant);
  }
  return decision;
}

}  // namespace

SeatDecision DecideSeats(const SeatSituation& now, int64_t now_ms) {
  if (!now.cluster.seats.live()) return GatherServers(now, now_ms);
  std::vector<size_t> vacant = now.cluster.seats.Vacant(now.cluster.roster);
  if (vacant.empty()) return AwaitReady(now, now_ms);
  return ReplaceLost(now, std::move(vacant), now_ms);
}

}  // namespace dslide
