#include "common/net/member_link.h"

#include <fmt/format.h>

#include "common/base/log.h"
#include "common/base/plural.h"
#include "common/base/process.h"

namespace dslide {

Result<DealerSocket> DialMember(NetContext& context, const AccessListHolder& access,
                                const SchedulerAccess& scheduler, const PlanServer& server) {
  if (!scheduler.curve) return DealerSocket::Connect(context, server.address);
  const std::optional<PublicKey> key = access.KeyOf(server.incarnation);
  if (!key || access.RoleOf(*key) != KeyRole::kServer) {
    return Failed(fmt::format("the key of {} is not known", server.name));
  }
  return DealerSocket::Connect(context, server.address, CurvePeer{scheduler.curve->own, *key});
}

Status SchedulerRefusal(const HandshakeFailure& failure, const SchedulerAccess& scheduler) {
  constexpr int64_t kListMs = 2500;  // a key that was just allowed is known after a second
  constexpr int64_t kPatienceMs = 8000;
  if (failure.refused) {
    if (failure.for_ms < kListMs) return {};
    return BadInput(
        fmt::format("the scheduler at {} does not let the key {} in: it is not known there, "
                    "revoked or expired; "
                    "ask for another one (dslide key allow)",
                    scheduler.address, ShortTextOf(scheduler.curve->own.public_key)));
  }
  const std::string why = fmt::format(
      "{} ends connections before they are ready: {}", scheduler.address,
      scheduler.curve ? "the key or join string given here is for another run or mistyped, or the "
                        "scheduler has no encryption"
                      : "it may want a key (--key FILE or a join string), or be no scheduler");
  if (failure.for_ms >= kPatienceMs && !failure.had_connected) return TryLater(why);
  if (failure.in_row == 1) LogWarning(why + "; trying again");
  return {};
}

void RateLimit::Warn(const std::string& line, int64_t now_ms) {
  if (now_ms - warned_ms_ < kEveryMs) {
    ++left_out_;
    return;
  }
  warned_ms_ = now_ms;
  LogWarning(left_out_ == 0 ? line : fmt::format("{} (and {} before)", line, left_out_));
  left_out_ = 0;
}

void WarnOfRefusals(NetContext* context, RateLimit* lines) {
  if (const Closings closings = context->TakeClosings(); closings.count > 0) {
    lines->Warn(fmt::format("{} shut down, the last from {}", Plural(closings.count, "connection"),
                            closings.last),
                MonotonicMillis());
  }
  const Refusals refusals = context->TakeRefusals();
  if (refusals.count == 0) return;
  lines->Warn(
      fmt::format("{} refused{}", Plural(refusals.count, "connection"),
                  refusals.last_key ? ", the last with the key " + ShortTextOf(*refusals.last_key)
                                    : std::string()),
      MonotonicMillis());
}

}  // namespace dslide
