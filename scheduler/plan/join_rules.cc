#include "scheduler/plan/join_rules.h"

#include <fmt/core.h>

#include "scheduler/members/join_limits.h"
#include "scheduler/plan/memory_check.h"

namespace dslide {
namespace {

// The text if the condition holds.
std::string If(bool objects, std::string why) { return objects ? std::move(why) : std::string(); }

std::string OtherProtocol(const JoinCase& c) {
  return If(c.join.protocol != kProtocolVersion,
            fmt::format("protocol {}, this scheduler speaks {}; use binaries of one version",
                        c.join.protocol, kProtocolVersion));
}

std::string Finished(const JoinCase& c) {
  return If(c.request.run_finished, "the run is finished");
}

std::string Excluded(const JoinCase& c) {
  const std::string name = PlainName(c.join.name);
  return If(c.request.excluded,
            fmt::format("{} was excluded from this run, and may not join it again",
                        name.empty() ? "this worker" : name));
}

std::string OtherMember(const JoinCase& c) {
  const bool other_role = c.known != nullptr && c.known->role != c.join.role;
  return If(other_role || (c.has_seat && c.join.role != Role::kServer),
            "its incarnation is another member's");
}

std::string SlotsGone(const JoinCase& c) {
  return If(c.join.role == Role::kServer && c.join.plan_version != 0 && !c.has_seat && !c.departs,
            "this server's slots have gone to others; begin a new life");
}

std::string BannedLife(const JoinCase& c) {
  return If(c.known == nullptr && c.banned_life,
            "this worker was taken for dead; begin a new life");
}

std::string Nonsense(const JoinCase& c) {
  return c.known == nullptr ? WhyNonsense(c.join) : std::string();
}

std::string Full(const JoinCase& c) {
  if (c.known != nullptr || c.has_seat || c.join.role == Role::kObserver) return "";
  return WhyFull(c.join.role, c.cluster.roster, c.run.config.cluster.most_workers);
}

std::string ConnectionFull(const JoinCase& c) {
  return If(c.known == nullptr && c.cluster.roster.CountAt(c.request.from) >= kMostOfConnection,
            fmt::format("{} members have joined by this connection, which is the most",
                        kMostOfConnection));
}

// A process that has no objection takes one of the joins of this second.
std::string TooMany(const JoinCase& c) {
  if (c.known != nullptr || c.request.reached || c.has_seat || c.departs) return "";
  return If(!c.rate->Take(c.now_ms), "too many processes join at the moment");
}

std::string Barred(const JoinCase& c) {
  if (!c.new_server()) return "";
  std::string why = c.cluster.admission.WhyBarred(c.join.address, c.now_ms);
  if (why.empty() && !c.key.empty()) why = c.cluster.admission.WhyBarred(c.key, c.now_ms);
  return why;
}

std::string BarredWithSlots(const JoinCase& c) {
  return c.join.plan_version != 0 ? Barred(c) : std::string();
}

std::string TooSmall(const JoinCase& c) {
  if (!c.new_server()) return "";
  return WhyTooSmall(c.join, c.run.config, c.cluster.roster, c.cluster.seats.live());
}

static_assert(kMostOfConnection == 4 && JoinRate::kASecond == 200 && JoinRate::kAtOnce == 1000,
              "the rules' texts have these numbers");

constexpr JoinRule kRules[] = {
    {"it speaks another protocol version", ErrorCode::kIncompatible, false, OtherProtocol},
    {"the run is finished", ErrorCode::kRefused, false, Finished},
    {"it is a banned worker", ErrorCode::kIncompatible, false, Excluded},
    {"its incarnation is another member's", ErrorCode::kRefused, false, OtherMember},
    {"it is a server whose slots others have, and nobody copies from it any more",
     ErrorCode::kFenced, false, SlotsGone},
    {"it is a worker that was declared dead: it has to begin a new life", ErrorCode::kFenced, false,
     BannedLife},
    {"what it says of itself is not possible", ErrorCode::kIncompatible, false, Nonsense},
    {"there are as many of its role as may be", ErrorCode::kRefused, false, Full},
    {"four members have joined by its connection", ErrorCode::kRefused, false, ConnectionFull},
    {"more than 200 a second join, after the first 1,000", std::nullopt, false, TooMany},
    {"it is an excluded server with slots of an earlier slot map", ErrorCode::kFenced, false,
     BarredWithSlots},
    {"it is an excluded server, by address or key", ErrorCode::kRefused, false, Barred},
    {"it is a server with too little memory", ErrorCode::kIncompatible, true, TooSmall},
};

}  // namespace

std::span<const JoinRule> JoinRules() { return kRules; }

std::optional<JoinObjection> ObjectionTo(const JoinCase& join) {
  for (const JoinRule& rule : kRules) {
    if (std::string why = rule.why(join); !why.empty()) return JoinObjection{&rule, std::move(why)};
  }
  return std::nullopt;
}

}  // namespace dslide
