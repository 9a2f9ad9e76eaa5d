#include "scheduler/plan/join_rules.h"

#include <fmt/core.h>

#include "scheduler/members/join_limits.h"
#include "scheduler/plan/memory_check.h"

namespace dslide {
namespace {

using Why = std::optional<std::string>;

// Many functions tell "no objection" by an empty text.
Why WhyUnlessEmpty(std::string why) { return why.empty() ? std::nullopt : Why(std::move(why)); }

Why OtherProtocol(const JoinCase& c) {
  if (c.join.protocol == kProtocolVersion) return std::nullopt;
  return fmt::format("protocol {}, this scheduler speaks {}; use binaries of one version",
                     c.join.protocol, kProtocolVersion);
}

Why Finished(const JoinCase& c) {
  return c.request.run_finished ? Why("the run is finished") : std::nullopt;
}

Why Banned(const JoinCase& c) {
  if (!c.request.banned) return std::nullopt;
  const std::string name = PlainName(c.join.name);
  return fmt::format("{} was excluded from this run, and may not join it again",
                     name.empty() ? "this worker" : name);
}

Why OtherMember(const JoinCase& c) {
  const bool other_role = c.known != nullptr && c.known->role != c.join.role;
  if (!other_role && (!c.has_seat || c.join.role == Role::kServer)) return std::nullopt;
  return "its incarnation is another member's";
}

Why SlotsGone(const JoinCase& c) {
  const bool has_slots = c.join.role == Role::kServer && c.join.plan_version != 0;
  if (!has_slots || c.has_seat || c.departs) return std::nullopt;
  return "this server's slots have gone to others; begin a new life";
}

Why DeclaredDead(const JoinCase& c) {
  if (c.known != nullptr || !c.declared_dead) return std::nullopt;
  return "this worker was taken for dead; begin a new life";
}

Why AboveLimits(const JoinCase& c) {
  return c.known == nullptr ? WhyUnlessEmpty(WhyNonsense(c.join)) : std::nullopt;
}

Why RoleFull(const JoinCase& c) {
  if (c.known != nullptr || c.has_seat || c.join.role == Role::kObserver) return std::nullopt;
  return WhyUnlessEmpty(WhyFull(c.join.role, c.cluster.roster, c.run.config.cluster.most_workers));
}

Why ConnectionFull(const JoinCase& c) {
  if (c.known != nullptr || c.cluster.roster.CountAt(c.request.from) < kMostOfConnection) {
    return std::nullopt;
  }
  return fmt::format("{} members have joined by this connection, which is the most",
                     kMostOfConnection);
}

Why RateExceeded(const JoinCase& c) {
  if (c.known != nullptr || c.request.reached || c.has_seat || c.departs) return std::nullopt;
  return c.rate->Take(c.now_ms) ? std::nullopt : Why("too many processes join at the moment");
}

Why ExcludedServer(const JoinCase& c) {
  if (!c.new_server()) return std::nullopt;
  std::string why = c.cluster.admission.WhyBarred(c.join.address, c.now_ms);
  if (why.empty() && !c.key.empty()) why = c.cluster.admission.WhyBarred(c.key, c.now_ms);
  return WhyUnlessEmpty(std::move(why));
}

Why ExcludedServerWithSlots(const JoinCase& c) {
  return c.join.plan_version != 0 ? ExcludedServer(c) : std::nullopt;
}

Why TooSmall(const JoinCase& c) {
  if (!c.new_server()) return std::nullopt;
  return WhyUnlessEmpty(
      WhyTooSmall(c.join, c.run.config, c.cluster.roster, c.cluster.seats.live()));
}

static_assert(kMostOfConnection == 4 && JoinRate::kASecond == 200 && JoinRate::kAtOnce == 1000,
              "the rules' texts have these numbers");

constexpr JoinRule kRules[] = {
    {"it speaks another protocol version", ErrorCode::kIncompatible, false, OtherProtocol},
    {"the run is finished", ErrorCode::kRefused, false, Finished},
    {"it is a banned worker", ErrorCode::kIncompatible, false, Banned},
    {"its incarnation is another member's", ErrorCode::kRefused, false, OtherMember},
    {"it is a server whose slots others have, and nobody copies from it any more",
     ErrorCode::kFenced, false, SlotsGone},
    {"it is a worker that was declared dead", ErrorCode::kFenced, false, DeclaredDead},
    {"its name, address, cores, memory or disk is above a limit", ErrorCode::kIncompatible, false,
     AboveLimits},
    {"there are as many servers, or workers, as may be", ErrorCode::kRefused, false, RoleFull},
    {"four members have joined by its connection", ErrorCode::kRefused, false, ConnectionFull},
    {"more than 200 new processes a second join (1,000 at once)", std::nullopt, false,
     RateExceeded},
    {"it is an excluded server, by address or key, with slots", ErrorCode::kFenced, false,
     ExcludedServerWithSlots},
    {"it is an excluded server", ErrorCode::kRefused, false, ExcludedServer},
    {"it is a server with too little memory", ErrorCode::kIncompatible, true, TooSmall},
};

}  // namespace

std::span<const JoinRule> JoinRules() { return kRules; }

std::optional<JoinObjection> ObjectionTo(const JoinCase& join) {
  for (const JoinRule& rule : kRules) {
    if (Why why = rule.why(join)) return JoinObjection{&rule, *std::move(why)};
  }
  return std::nullopt;
}

}  // namespace dslide
